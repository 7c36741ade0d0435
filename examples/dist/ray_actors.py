#!/usr/bin/env python3
"""Ranks on the hosts of a Ray cluster: one actor a rank, which starts the program and passes its lines on.

    python examples/dist/ray_actors.py --ranks 8 PROGRAM ARGUMENT...          # one GPU a rank
    python examples/dist/ray_actors.py --emulated --ranks 4 PROGRAM ...       # no GPU: over MPI (see over_mpi.py)

Requirements: Ray (`pip install ray`), the program under one path on all hosts, and NCCL there; for --emulated Open MPI 4, and a
program with the feature `mpi`. Without the address of a cluster (RAY_ADDRESS) Ray starts on this machine.
"""

import argparse
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import ray


@ray.remote(max_restarts=0)  # a rank that comes again would find no world
class Rank:
    def place(self):
        """This host's address, and a port for rank 0, should this be it."""
        with socket.create_server(("", 0)) as free:
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, command, variables):
        """Yields the lines that the program prints, and last its exit status."""
        pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, env={**os.environ, **variables}, text=True, **pipe) as program:
            for line in program.stdout:
                yield line
        yield program.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--emulated", action="store_true", help="emulated devices, over MPI")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    args = parser.parse_args()

    ray.init(log_to_driver=False)
    # Ray shows each actor its own GPU alone, which is the device of its rank. Ranks wait for each other, so each must have its
    # place before any begins: emulated ones take no core, and may be more than there are.
    needs = {"num_cpus": 0} if args.emulated else {"num_cpus": 1, "num_gpus": 1}
    actors = [Rank.options(**needs).remote() for _ in range(args.ranks)]
    places = ray.get([actor.place.remote() for actor in actors])

    # What World::from_env reads. Ranks are counted on each host, too.
    hosts = [host for host, _ in places]
    on_host, seen = Counter(hosts), Counter()
    shared = {"WORLD_SIZE": str(args.ranks), "MASTER_ADDR": hosts[0], "MASTER_PORT": str(places[0][1])}
    command = args.command
    if args.emulated:
        shared["FERROWARP_DEVICE"] = "emulator"
        command = [str(Path(__file__).resolve().with_name("over_mpi.py")), *command]
    statuses = {}

    def follow(rank, lines):
        try:
            for line in map(ray.get, lines):
                statuses[rank] = line
                if isinstance(line, str):
                    print(f"[{rank}] {line}", end="", flush=True)
        except ray.exceptions.RayError as error:
            statuses[rank] = f"the actor has failed: {error}"

    followers = []
    for rank, (actor, host) in enumerate(zip(actors, hosts)):
        own = {"RANK": str(rank), "LOCAL_RANK": str(seen[host]), "LOCAL_WORLD_SIZE": str(on_host[host])}
        seen[host] += 1
        lines = actor.run.options(num_returns="streaming").remote(command, {**shared, **own})
        followers.append(threading.Thread(target=follow, args=(rank, lines)))
        followers[-1].start()
    for follower in followers:
        follower.join()
    failed = {rank: status for rank, status in sorted(statuses.items()) if status != 0}
    if failed:
        sys.exit(f"ranks and how they ended: {failed}")


if __name__ == "__main__":
    main()
