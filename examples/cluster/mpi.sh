#!/bin/sh
# Workers under Open MPI: HOSTS=node1:4,node2:4 examples/cluster/mpi.sh 8 train.py --checkpoints /shared/run
# Without HOSTS all are on this machine. MPI only starts them. A worker that fails ends the job; start it again.
workers=$1
shift
if [ -n "$HOSTS" ]; then
    first=${HOSTS%%[:,]*}
    set -- -H "$HOSTS" -x "MXJAX_COORDINATOR=$first:${PORT:-9091}" "${PYTHON:-python}" -m mxjax run "$@"
else
    set -- "${PYTHON:-python}" -m mxjax run "$@"
fi
exec mpirun -n "$workers" -x MXJAX_JOIN=1 $MPIRUN_OPTIONS "$@"
