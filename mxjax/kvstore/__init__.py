"""`mx.kv`: key-value stores for data-parallel training. See README.md."""

from . import base, cluster, dist_async, dist_sync, kvstore, kvstore_server
from .base import *
from .cluster import join as join
from .cluster import same_everywhere as same_everywhere
from .kvstore import *
from .kvstore_server import KVStoreServer as KVStoreServer
