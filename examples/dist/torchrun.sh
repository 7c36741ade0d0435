#!/bin/sh
# Ranks on one host or several by PyTorch's torchrun, which is started once on each host and needs no ssh:
#
#     RANKS=8 examples/dist/torchrun.sh PROGRAM ARGUMENT...                                     # one host
#     NODES=2 NODE=0 RANKS=8 MASTER_ADDR=node0 examples/dist/torchrun.sh PROGRAM ARGUMENT...    # on node0, and with
#                                                                                               # NODE=1 on another host
#
# Requirements: torchrun on the path, of a Python environment with PyTorch; its NCCL is found there. On several hosts: the port
# MASTER_PORT and the 20 after it are open between them.

set -eu

# Emulated devices exchange data over MPI, which begins only below an mpirun: OVER_MPI=1 brings one.
if [ "${OVER_MPI:-0}" = 1 ]; then
    set -- "$(dirname "$0")/over_mpi.py" "$@"
fi
if [ "${NODES:-1}" -eq 1 ]; then
    set -- --standalone "$@"
else
    # One number of nodes, not MIN:MAX: with fewer ranks each would have another share, so such a restart is refused.
    set -- --nnodes "$NODES" --node_rank "$NODE" --master_addr "$MASTER_ADDR" --master_port "${MASTER_PORT:-29500}" "$@"
fi
# The program is not Python. Options are written with underscores, which old and new versions take.
# The options stand first: all after the program's name are its own.
exec torchrun --nproc_per_node "${RANKS:-4}" --no_python "$@"
