"""`mx.kv`: key-value stores for data-parallel training. See README.md."""

from . import base, cluster, dist_async, dist_sync, kvstore, kvstore_server
from .base import KVStoreBase, TestStore, create
from .cluster import join, same_everywhere
from .kvstore import KVStore
from .kvstore_server import KVStoreServer
