#!/bin/sh
# Ranks on one machine, or on the hosts of a file, by Open MPI's mpirun:
#
#     RANKS=4 examples/dist/mpirun.sh PROGRAM ARGUMENT...
#     RANKS=16 HOSTFILE=hosts examples/dist/mpirun.sh PROGRAM ARGUMENT...    # lines such as `node1 slots=8`
#
# Requirements: Open MPI. On several hosts: ssh without a password, the program under one path on all, and a build with the
# feature `mpi`, since the ranks then find each other through MPI. With real GPUs: NCCL on each host, and one rank a GPU.

set -eu

# Open MPI does not run as root, as in a container, unless it is told twice.
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# More ranks than cores, which a test among emulated devices may have: ranks that wait then yield their core. Ranks are not
# bound to single cores, as each has threads beside the one that starts.
set -- --oversubscribe --bind-to none -n "${RANKS:-4}" "$@"
if [ -n "${HOSTFILE:-}" ]; then
    # The variables that the ranks need on other hosts, too; mpirun passes on none but its own.
    for name in $(env | sed -n 's/^\(FERROWARP_[A-Z_]*\|NCCL_[A-Z_]*\)=.*/\1/p'); do
        set -- -x "$name" "$@"
    done
    set -- --hostfile "$HOSTFILE" "$@"
fi
exec mpirun "$@"
