"""`mx.kvstore_server`, and `python -m mxjax.kvstore_server`: a process that serves by its DMLC_ROLE."""

from .kvstore.kvstore_server import KVStoreServer, run_role

__all__ = ["KVStoreServer", "run_role"]

if __name__ == "__main__":
    run_role()
