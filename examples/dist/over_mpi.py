#!/usr/bin/env python3
"""Gives MPI to ranks that another launcher has started: torchrun, Ray, or a script that sets RANK and WORLD_SIZE.

    torchrun --nproc-per-node 4 --no-python examples/dist/over_mpi.py PROGRAM ARGUMENT...

Real GPUs exchange data over NCCL and need nothing of this. Emulated ones do it over MPI, which begins only in processes that
belong to an mpirun. So each rank runs this script in place of its program, and rank 0 runs one mpirun. That mpirun takes each
rank for a host of its own, and asks the rank's script, not ssh, to start its daemon there; the daemon starts the program, which
then has the variables of its launcher and those of MPI. What all ranks print comes out of rank 0.

Requirements: Python 3.8, and one version 4 of Open MPI on all hosts. The scripts talk on the port MASTER_PORT + 20 (or - 20 at
the end of the range) of MASTER_ADDR. Each runs what rank 0 tells it to, so that port is for a network of one's own.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PATIENCE = float(os.environ.get("FERROWARP_DIST_TIMEOUT", 120))


def start_daemon(folder, host, *command):
    """What mpirun calls in place of ssh: leaves the command for the rank, whose name is the host's."""
    half = Path(folder, f".{host}")
    half.write_text(" ".join(command))
    half.rename(Path(folder, host))  # at once, so that nobody reads half of it


def serve(listener, size, program):
    """At rank 0: waits for all ranks, runs mpirun, passes its commands on, and tells all ranks how it ended."""
    ranks, code = {}, 1
    try:
        listener.settimeout(PATIENCE)
        while len(ranks) < size:
            stream = listener.accept()[0].makefile("rw")
            ranks[json.loads(stream.readline())["rank"]] = stream
        with tempfile.TemporaryDirectory() as folder:
            code = run_mpirun(folder, ranks, program)
    except (OSError, ValueError, KeyError) as error:
        missing = sorted(set(range(size)) - set(ranks))
        print(f"over_mpi.py: {error}" + (f"; ranks {missing} did not come" if missing else ""), file=sys.stderr)
    for stream in ranks.values():
        tell(stream, {"exit": code})


def run_mpirun(folder, ranks, program):
    size = len(ranks)
    agent = shlex.join([sys.executable, __file__, "--start-daemon", folder])
    # A slot for each rank, in order, so that MPI numbers the ranks as the launcher does. What another scheduler has allocated
    # is left alone. Daemons of one host do not know of each other, and would all bind to its first cores.
    command = ["mpirun", "-n", str(size), "--host", ",".join(f"rank{rank}" for rank in range(size))]
    command += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1"]
    command += ["--mca", "ras", "^slurm", "--leave-session-attached", "--bind-to", "none"]
    mpirun = subprocess.Popen(command + program, env=environment())
    try:
        told = set()
        while mpirun.poll() is None:
            for file in Path(folder).glob("rank*"):
                if file.name not in told:
                    told.add(file.name)
                    tell(ranks[int(file.name[4:])], {"command": file.read_text()})
            time.sleep(0.02)
        return mpirun.returncode & 0xFF or int(mpirun.returncode != 0)
    finally:
        mpirun.terminate()


def tell(stream, message):
    try:
        print(json.dumps(message), file=stream, flush=True)
    except OSError:
        pass  # it has ended, which mpirun notices


def follow(address, rank):
    """On every rank: runs the daemon that rank 0 asks for, and returns the exit status that mpirun had."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection = socket.create_connection(address, timeout=5)
            break
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"over_mpi.py: rank {rank} has not found rank 0 at {address}: {error}")
            time.sleep(0.1)
    connection.settimeout(None)
    stream = connection.makefile("rw")
    tell(stream, {"rank": rank})
    daemons = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for line in stream:
                message = json.loads(line)
                if "exit" in message:
                    return message["exit"]
                # Daemons of one host may not share a folder, which the first one to end would remove.
                own = environment(OMPI_MCA_orte_tmpdir_base=folder)
                daemons.append(subprocess.Popen(["sh", "-c", message["command"]], env=own))
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()
    sys.exit(f"over_mpi.py: rank {rank} has lost rank 0")


def environment(**more):
    # Open MPI refuses to run as root unless it is told twice.
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


def main():
    if sys.argv[1:2] == ["--start-daemon"]:
        return start_daemon(*sys.argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` ends what was started
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    port = int(os.environ["MASTER_PORT"])
    address = (os.environ["MASTER_ADDR"], port + 20 if port < 65500 else port - 20)
    if rank == 0:
        listener = socket.create_server(("", address[1]))
        threading.Thread(target=serve, args=(listener, size, sys.argv[1:])).start()
    sys.exit(follow(address, rank))


if __name__ == "__main__":
    main()
