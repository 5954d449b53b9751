# SPDX-License-Identifier: BSD-3-Clause
"""leat-redis-bench and servers over UNIX sockets and TCP: test_redisb_server.py LEAT_REDIS_BENCH"""

import os
import re
import signal
import socket
import tempfile

from redisb_lib import (CPU_A, CPU_B, SIGINT, SIGTERM, Fake, Proc, Redis, bench, case, check, clean,
                        expect_ok, main, need_redis, one, results, start)

TWO = ["--lcores", "0@%d,1@%d" % (CPU_A, CPU_B)]
# The password contains the placeholders that are replaced in commands.
SECRET = "__data__s3cret__rand_int__"
ALL = ["--test", "ping,set,get,mset,lrange"]


@case
def every_test_as_often_as_asked_for():
    with Redis() as r:
        for eal in (None, TWO):
            j = clean(bench(r.where, ALL + ["-n", "3001", "-r", "500", "-c", "7", "--verify"], eal),
                      3001)
            check(all(x["latency"]["min_us"] > 0
                      for x in j["results"] + [{"latency": j["connect"]}]), str(j))
        c = r.connect()
        # Two runs. SET is also called for each of the 500 keys, so that GET finds them.
        check(c.calls("ping") == 6002 and c.calls("set") == 2 * (3001 + 500) and
              c.calls("get") == 6002 and
              c.calls("mset") == 6002 and c.calls("lrange") == 6002 and c.calls("rpush") == 200,
              str([c.calls(x) for x in ("ping", "set", "get", "mset", "lrange", "rpush")]))
        check(c.call("DBSIZE") == 501, "%d keys" % c.call("DBSIZE"))
        check(c.call("STRLEN", "leat:000000000499") == 64 and c.call("LLEN", "leat:list") == 100,
              "lengths")
        c.close()


@case
def sizes_and_pipelines():
    with Redis() as r:
        for size, pipeline, clients, n in ((1, 1, 100, 3000), (1, 512, 3, 20000),
                                           (64, 16, 50, 20000),
                                           (4096, 512, 4, 5000), (4097, 3, 5, 2000),
                                           (65536, 7, 3, 500),
                                           (100001, 1, 9, 300), (1 << 20, 64, 2, 150),
                                           (16 << 20, 2, 2, 9)):
            app = ["--test", "set,get,mset" if size < 1 << 20 else "set,get", "-d", str(size), "-P",
                   str(pipeline), "-c", str(clients), "-n", str(n), "-r", "30", "--verify"]
            clean(bench(r.where, app), n)
        clean(bench(r.where,
                    ["--test", "lrange", "--range", "37", "-d", "5000", "-P", "9", "-n", "500",
                     "--verify"]), 500)


@case
def for_a_time():
    with Redis() as r:
        p = bench(r.where, ["-D", "0.4", "-P", "4"])
        for x in clean(p)["results"]:
            check(x["requests"] > 0 and x["elapsed_s"] >= 0.4, str(x))


@case
def any_command():
    with Redis() as r:
        clean(bench(r.where,
                    ["-n", "200", "-r", "5", "-d", "10", "SET", "a:__rand_int__:__rand_int__",
                     "<__data__>__rand_int__"]), 200)
        c = r.connect()
        keys = c.call("KEYS", "*")
        check(0 < len(keys) <= 25 and
              all(re.fullmatch(rb"a:00000000000[0-4]:00000000000[0-4]", k) for k in keys),
              str(keys))
        value = c.call("GET", keys[0])
        check(len(value) == 24 and value[:1] == b"<" and value[11:12] == b">", str(value))
        j = clean(bench(r.where, ["-n", "100", "INCRBY", "n", "3"]), 100)
        check(c.call("GET", "n") == b"300" and j["plan"]["command"] == ["INCRBY", "n", "3"], str(j))
        # arrays in arrays, nil, numbers
        clean(bench(r.where, ["-n", "50", "COMMAND", "INFO", "get", "set"]), 50)
        x = one(expect_ok(bench(r.where, ["-n", "50", "GET", "nothing"])))
        check(x["nil"] == 50 and x["errors"] == 0, str(x))
        c.close()


@case
def tcp():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Redis("--port", str(port)):
        for host in ("127.0.0.1", "localhost"):
            clean(bench(["--connect", "tcp:%s:%d" % (host, port)],
                        ["-n", "1000", "-P", "3", "--verify"]), 1000)


@case
def passwords_and_databases():
    with tempfile.NamedTemporaryFile("w") as good, tempfile.NamedTemporaryFile("w") as bad, \
            Redis("--requirepass", SECRET) as r:
        good.write(SECRET + "\nmore\n")
        good.flush()
        bad.write("wrong")
        bad.flush()
        app = ["-n", "50", "-c", "2"]
        p = bench(r.where, app + ["--test", "ping"])
        check(p.code == 1 and "the first: -NOAUTH" in p.err() and one(p)["errors"] == 50, p.text())
        p = bench(r.where, app + ["--auth-file", bad.name])
        check(p.code == 1 and "AUTH: -WRONGPASS" in p.err(), p.text())
        check("2 of 2 clients were lost" in results(p)["error"] and results(p)["results"] == [],
              p.text())
        clean(bench(r.where, app + ["--auth-file", good.name, "--db", "3", "-r", "10"]), 50)
        c = r.connect()
        check(c.call("AUTH", SECRET) == "OK" and c.call("SELECT", "3") == "OK", "AUTH, SELECT")
        check(c.call("DBSIZE") == 10, "keys of database 3")
        check(c.call("ACL", "SETUSER", "joe", "on", ">wrong", "~*", "+ping") == "OK", "ACL")
        c.close()
        clean(bench(r.where, app + ["--auth-file", bad.name, "--user", "joe", "--test", "ping"]),
              50)
        p = bench(r.where, app + ["--auth-file", good.name, "--db", "99"])
        check(p.code == 1 and "SELECT: -ERR DB index" in p.err(), p.text())


@case
def errors_are_counted_and_told_once():
    with Redis() as r:
        p = bench(r.where, ["-n", "300", "NOSUCH"])
        check(p.code == 1 and one(p)["errors"] == 300 and one(p)["requests"] == 300, p.text())
        check(p.err().count("-ERR unknown command") == 1, p.text())
        c = r.connect()
        c.call("SET", "leat:list", "x")
        p = bench(r.where, ["-n", "30", "--test", "lrange", "--no-fill"])
        check(p.code == 1 and one(p)["errors"] == 30 and "-WRONGTYPE" in one(p)["first_error"],
              p.text())
        c.call("CONFIG", "SET", "maxclients", "3")
        p = bench(r.where, ["-n", "30", "--test", "ping", "-c", "40"])
        check(p.code == 1 and "max number of clients reached" in p.err(), p.text())
        c.close()


@case
def what_is_wrong_is_named():
    with Redis() as r:
        app = ["--test", "get", "-n", "200", "-r", "20", "--verify"]
        p = bench(r.where, app + ["--no-fill"])
        check(p.code == 1 and one(p)["wrong"] == 200, p.text())
        check(re.search(r"leat:0000000000\d\d: no such key", p.err()), p.text())
        clean(bench(r.where, app), 200)
        # Another seed gives other values.
        p = bench(r.where, app + ["--no-fill", "--seed", "2"])
        check(p.code == 1 and one(p)["wrong"] == 200 and ": byte 0 of 64 is 0x" in p.err(),
              p.text())
        p = bench(r.where, app + ["--no-fill", "-d", "65"])
        check(p.code == 1 and ": 64 bytes instead of 65" in p.err(), p.text())
        c = r.connect()
        value = bytearray(c.call("GET", "leat:000000000007"))
        value[41] ^= 0x10
        c.call("SET", "leat:000000000007", bytes(value))
        c.close()
        p = bench(r.where, app + ["--no-fill", "-n", "2000"])
        text = "leat:000000000007: byte 41 of 64 is 0x%02x instead of 0x%02x" % (value[41],
                                                                                 value[41] ^ 0x10)
        check(p.code == 1 and 0 < one(p)["wrong"] < 2000 and text in one(p)["first_wrong"] and
              text in p.err(), p.text())


def fake(answer, app, greeting=b""):
    with Fake(answer, greeting) as f:
        return bench(f.where, ["-c", "2", "-n", "20"] + app)


@case
def servers_that_answer_wrongly():
    kept = {}

    def spoil(args, n):
        if args[0] == b"SET":
            kept[args[1]] = args[2]
            return b"+OK\r\n"
        value = bytearray(kept[args[1]])
        value[-1] ^= 1
        return b"$%d\r\n%s\r\n" % (len(value), value)

    p = fake(spoil, ["--test", "get", "-d", "3000", "--verify"])
    check(p.code == 1 and one(p)["wrong"] == 20 and "byte 2999 of 3000" in p.err(), p.text())
    for reply, text in ((b"+NO\r\n", "answered with another status"),
                        (b":1\r\n", "answered with a number"),
                        (b"$2\r\nOK\r\n", "answered with a string"),
                        (b"*0\r\n", "answered with a list"),
                        (b"$-1\r\n", "answered with nil"),
                        (b"*1\r\n+OK\r\n", "answered with a list")):
        p = fake(lambda args, n, reply=reply: reply, ["--test", "set"])
        check(p.code == 1 and one(p)["wrong"] == 20 and text in p.err(), p.text())
    p = fake(lambda args, n: b"*2\r\n$1\r\nx\r\n-ERR \x1b[31mred\x07\r\n", ["A"])
    check(p.code == 1 and one(p)["errors"] == 20 and "-ERR ?[31mred?" in p.err(), p.text())


@case
def servers_that_break_the_protocol():
    for reply, text in ((b"!what\r\n", "Protocol error"),
                        (b"+OK\r\n+OK\r\n", "there was no request"),
                        (b"$x\r\n", "."), (b"*9999999999999\r\n", "."), (b"*1\r\n" * 20, "."),
                        (None, "has closed")):
        p = fake(lambda args, n, reply=reply: reply if n > 3 else b"+OK\r\n", ["--test", "set"])
        j = results(p)
        check(p.code == 1 and re.search("client \\d of lcore 0: .*" + text, p.err()), p.text())
        check(j["results"][0]["lost_clients"] > 0 and "clients were lost" in j["error"], p.text())
    p = fake(lambda args, n: b"+OK\r\n", ["--test", "set"], b"-ERR go away\r\n")
    check(p.code == 1 and "-ERR go away" in p.err() and "there was no request" in p.err(),
          p.text())


@case
def replies_in_single_bytes():
    reply = b"*3\r\n$5\r\nvalue\r\n:12\r\n*1\r\n+ok\r\n"
    with Fake(lambda args, n: reply, step=1) as f:
        x = one(expect_ok(bench(f.where, ["-c", "1", "-n", "50", "-P", "5", "A"])))
        check(x["requests"] == 50 and x["bytes_received"] == 50 * len(reply), str(x))


@case
def an_open_loop_counts_from_when_requests_were_due():
    with Redis() as r:
        x = one(expect_ok(bench(r.where, ["--test", "ping", "--rate", "2000", "-n", "1000"])))
        check(x["requests"] == 1000 and 0.49 < x["elapsed_s"], str(x))
        # A stall of half a second: a quarter of the requests of two seconds are late.
        c = r.connect()
        p = start(r.where, ["--test", "get", "-r", "10", "--rate", "1000", "-D", "2", "-c", "1"])
        r.wait_calls("get", 100)
        check(c.call("DEBUG", "SLEEP", "0.5") == "OK", "DEBUG SLEEP")
        c.close()
        p.code = p.wait()
        x = one(expect_ok(p))
        check(x["delayed"] > 300 and x["delayed_max_us"] > 300000, str(x))
        check(x["latency"]["p90_us"] > 100000 and x["latency"]["max_us"] > 400000, str(x))
        # Two tests, one after the other.
        clean(bench(r.where, ["--rate", "5000", "-n", "500", "-c", "20", "-r", "100", "--verify"]),
              500)


@case
def an_open_loop_that_is_too_fast_ends():
    with Redis() as r:
        p = bench(r.where, ["--test", "ping", "--rate", "1M", "-n", "100", "-c", "1"])
        check(one(expect_ok(p))["requests"] == 100, p.text())
        p = bench(r.where,
                  ["--rate", "100K", "-D", "0.5", "-c", "1", "-d", "1M", "--test", "set", "-r",
                   "3"])
        x = one(expect_ok(p))
        check(x["unsent"] > 0 and x["requests"] + x["unsent"] <= 50001, p.text())


@case
def a_server_that_is_killed():
    for pipeline in ("1", "64"):
        with Redis() as r:
            p = start(r.where, ["--test", "set", "-D", "60", "-c", "20", "-P", pipeline], TWO)
            r.wait_calls("set", 1000)
            r.kill()
            p.code = p.wait()
            x = one(p)
            # Clients may be lost before their lcore begins the test: lost_clients does not count
            # these, only the error does.
            check(p.code == 1 and x["requests"] > 0 and 0 < x["lost_clients"] <= 20, p.text())
            check(results(p)["error"] == "set: 20 of 20 clients were lost", p.text())
            check(0 < len(re.findall(r"client \d+ of lcore", p.err())) <= 6, p.text())


@case
def a_server_that_hangs():
    with Redis() as r:
        p = start(r.where, ["--test", "set", "-D", "60", "-c", "5", "--timeout", "0.5"])
        r.wait_calls("set", 100)
        r.signal(signal.SIGSTOP)
        p.code = p.wait()
        check(p.code == 1 and one(p)["lost_clients"] == 5 and "no answer within 0.5 s" in p.err(),
              p.text())
        # A server that accepts connections, and does not answer.
        p = bench(r.where, ["--test", "ping", "-n", "5", "--timeout", "0.3", "--db", "1"])
        check(p.code == 1 and "no answer within 0.3 s" in p.err(), p.text())
        r.signal(signal.SIGCONT)


@case
def a_server_that_is_not_there():
    with tempfile.TemporaryDirectory() as d:
        for where, text in (("unix:" + os.path.join(d, "s"), "No such file or directory"),
                            ("tcp:127.0.0.1:1", "Connection refused")):
            p = bench(["--connect", where], ["-n", "1"])
            check(p.code == 1 and text in p.err() and
                  results(p)["error"] == "connect: 50 of 50 clients were lost",
                  p.text())
        # A server that does not accept: its backlog is full.
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(d, "s"))
            s.listen(0)
            p = bench(["--connect", "unix:" + os.path.join(d, "s")],
                      ["-n", "1", "-c", "3", "--timeout", "0.3"])
            check(p.code == 1 and "clients were lost" in results(p)["error"], p.text())
        # Many clients that are refused at once.
        p = bench(["--connect", "unix:" + os.path.join(d, "none")], ["-n", "1", "-c", "5000"])
        check(p.code == 1 and results(p)["error"] == "connect: 5000 of 5000 clients were lost",
              p.text())


@case
def through_a_gateway():
    with Redis() as r:
        ring = ["-l", str(CPU_A), "--vdev=fabric_ring0"]
        way = ["--gateway", "unix:" + r.path]
        for eal in (ring, TWO + ["--vdev=fabric_ring0"]):
            clean(bench(way, ALL + ["-n", "1001", "-P", "3", "-c", "20", "-r", "100", "--verify"],
                        eal), 1001)
        clean(bench(way, ["-n", "20", "-d", "3M", "-c", "3", "-r", "5", "--verify"], ring), 20)
        p = start(way, ["--test", "set", "-D", "60", "-c", "5"], ring)
        r.wait_calls("set", 5000)
        r.kill()
        p.code = p.wait()
        check(p.code == 1 and one(p)["lost_clients"] > 0, p.text())


@case
def signals():
    with Redis() as r:
        for sig, code in ((SIGINT, 130), (SIGTERM, 143)):
            c = r.connect()
            n = c.calls("set")
            p = start(r.where, ["--test", "set", "-D", "60", "-P", "4"], TWO)
            r.wait_calls("set", n + 1000)
            p.signal(sig)
            p.code = p.wait()
            j = results(p)
            # The server has handled 1000 SETs, but each of 50 clients may lack up to 4 replies.
            check(p.code == code and j["interrupted"] and j["results"][0]["requests"] >= 800,
                  p.text())
            check("of lcore" not in p.err(), p.text())
            # The benchmark has closed all its connections.
            while len(c.call("CLIENT", "LIST").splitlines()) > 1:
                pass
            c.close()


@case
def tables_and_progress():
    with Redis() as r:
        p = Proc(["-l", str(CPU_A)],
                 r.where + ["--idle", "sleep", "-D", "2.6", "--test", "ping", "--progress"])
        p.code = p.wait()
        expect_ok(p)
        check(re.search(r"^PING, 2 s, \d+ requests answered$", p.err(), re.M), p.text())
        check(re.search(r"^ connect +50 ", p.out(), re.M) and
              re.search(r"^ +ping +\d+ +2\.\d", p.out(), re.M), p.text())
        p = Proc(["-l", str(CPU_A)], r.where + ["--idle", "sleep", "-n", "10", "--test", "ping"])
        p.code = p.wait()
        check("requests answered" not in expect_ok(p).err(), p.text())


if __name__ == "__main__":
    main(need_redis)
