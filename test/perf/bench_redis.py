# SPDX-License-Identifier: BSD-3-Clause
"""The cost of leat-redis-gateway, without a NIC.

bench_redis.py LEAT_REDIS_BENCH [EAL...] [--smoke] [--seconds S]

A redis-server on a UNIX socket, on a CPU of its own, serves requests directly, and through the
gateway's engine over fabric_ring in the process of the clients. Rounds are interleaved; a ratio is
the median of the rounds' ratios.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

CPUS = sorted(os.sched_getaffinity(0))
ROUNDS = 5
CLIENTS, PIPELINE = "50", "16"


def on(cpu):
    return lambda: os.sched_setaffinity(0, {cpu})


class Server:
    def __init__(self, where):
        self.path = os.path.join(where, "s")
        self.p = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
             "--dir", where],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            preexec_fn=on(CPUS[-1]))
        for line in self.p.stdout:
            if "eady to accept connections" in line or "server is now ready" in line:
                return
        sys.exit("redis-server did not start")

    def stop(self):
        self.p.terminate()
        self.p.wait()


def leat(program, eal, where, app):
    """Run leat-redis-bench. Return its result."""
    args = [program, *eal, "--no-pci", "--log-level=lib.*:error", "-l", str(CPUS[0]),
            "--vdev=fabric_ring0", "--",
            *where, "--json", *app]
    out = subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True,
                         preexec_fn=on(CPUS[0])).stdout
    return json.loads(out)["results"][0]


def redis_benchmark(path, requests):
    """Run redis-benchmark. Return requests per second."""
    out = subprocess.run(["redis-benchmark", "-s", path, "-t", "set", "-c", CLIENTS, "-P", PIPELINE,
                          "-d", "64", "-r", "10000", "-n", str(requests), "--csv"],
                         check=True, stdout=subprocess.PIPE, text=True,
                         preexec_fn=on(CPUS[0])).stdout
    return float(out.splitlines()[-1].split(",")[1].strip('"'))


def show(name, pairs, unit, **more):
    result = {"name": name, "leat": statistics.median(p[0] for p in pairs),
              "reference": statistics.median(p[1] for p in pairs), "unit": unit,
              "ratio": statistics.median(p[0] / p[1] for p in pairs)}
    print(json.dumps({**result, **more}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--realtime", action="store_true",
                        help="ignored: it is not for programs that wait for others")
    args, eal = parser.parse_known_args()
    for needed in ("redis-server", "redis-benchmark"):
        if shutil.which(needed) is None:
            print("there is no " + needed)
            sys.exit(77)
    rounds = 1 if args.smoke else ROUNDS
    time = ["-D", str(0.05 if args.smoke else args.seconds / rounds)]
    with tempfile.TemporaryDirectory(prefix="leat-redis-") as where:
        server = Server(where)
        try:
            ways = [["--gateway", "unix:" + server.path], ["--connect", "unix:" + server.path]]
            ping = time + ["--test", "ping", "-c", "1"]
            load = time + ["--test", "set", "-c", CLIENTS, "-P", PIPELINE]
            lat, rate, own = [], [], []
            for _ in range(rounds):
                lat.append([leat(args.program, eal, w, ping)["latency"]["p50_us"] for w in ways])
                through, direct = [leat(args.program, eal, w, load)["requests_per_s"] / 1e3
                                   for w in ways]
                requests = 1000 if args.smoke else int(args.seconds * 1e5)
                reference = redis_benchmark(server.path, requests) / 1e3
                rate.append((through, reference))
                own.append((direct, reference))
            show("redis-gateway-ping", lat, "us", target=1.3, note="round trip beside a direct one")
            show("redis-gateway-rate", rate, "kreq/s", target=0.85, better="higher",
                 note="beside redis-benchmark, direct")
            show("redis-bench-rate", own, "kreq/s", note="direct, beside redis-benchmark")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
