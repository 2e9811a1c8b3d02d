#!/bin/bash
# Workers under SLURM: sbatch examples/cluster/slurm.sh train.py --checkpoints /shared/run
# When one fails, srun ends the others, and all are started again, up to three times.
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
# With GPUs: #SBATCH --gpus-per-task=1
export MXJAX_JOIN=1
attempts=4
for attempt in $(seq $attempts); do
    srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m mxjax run "$@"
    status=$?
    [ $status = 0 ] && exit 0
    echo "attempt $attempt of $attempts has ended with status $status" >&2
    sleep $((attempt * 5))
done
exit $status
