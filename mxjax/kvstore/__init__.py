"""`mx.kv`: key-value stores for data-parallel training. See README.md."""

from . import base, kvstore
from .base import KVStoreBase, TestStore, create
from .kvstore import KVStore
