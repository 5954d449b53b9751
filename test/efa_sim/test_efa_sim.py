# SPDX-License-Identifier: BSD-3-Clause
"""devtools/efa-sim: its arguments, and libfabric's own programs on the emulated device.

test_efa_sim.py EFA_SIM LIBRARY
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

EFA_SIM, LIBRARY = sys.argv[1:]
DEADLINE = 60  # seconds, for each wait
PINGPONG, INFO = shutil.which("fi_pingpong"), shutil.which("fi_info")


class Skipped(Exception):
    pass


def needs(program):
    if program is None:
        raise Skipped("libfabric-bin is not installed")


def environment(**more):
    env = {name: value for name, value in os.environ.items()
           if name not in ("EFA_SIM", "LD_PRELOAD")}
    env.update(more)
    return env


def efa_sim(*words, **more):
    return subprocess.run([sys.executable, EFA_SIM, "--library", LIBRARY, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=DEADLINE, env=environment(**more))


def counters(text):
    """The counters of one process: its line on stderr."""
    lines = [line for line in text.splitlines() if line.startswith('{"pid"')]
    assert len(lines) == 1, text
    return json.loads(lines[0])


# ---- arguments ----

def help_names_all_keys():
    done = efa_sim("--help")
    assert done.returncode == 0, done.stderr
    for key in ("seed", "devices", "reorder", "hold-us", "delay-us", "rnr-ppm", "fail", "fail-ppm",
                "deaf-after", "unresp-ms", "bad-device", "max-qp", "max-mr", "leaks", "stats",
                "quiet"):
        assert "--%s " % key in done.stdout or "--%s\n" % key in done.stdout, key


def wrong_values():
    for words, text in ((("--reorder", "0"), "not in the range"),
                        (("--reorder", "65537"), "not in the range"),
                        (("--seed", "-1"), "not in the range"),
                        (("--devices", "9"), "not in the range"),
                        (("--reorder", "many"), "invalid number value: 'many'"),
                        (("--unknown", "1"), "--unknown"),
                        (("--stats", "a,b"), "without a comma"),
                        (("--stats", ""), "without a comma"),
                        (("--fail", "14"), "not in the range"),
                        (("--reorder",), "invalid number value: 'true'")):
        done = efa_sim(*words, "true")
        assert done.returncode == 2 and text in done.stderr, (words, done)
    done = efa_sim()
    assert done.returncode == 2 and "COMMAND is missing" in done.stderr, done


def unknown_command():
    done = efa_sim("no-such-command")
    assert done.returncode == 127 and "no-such-command: No such file" in done.stderr, done
    done = efa_sim("--", "sh", "-c", "exit 3")
    assert done.returncode == 3, done
    # A program that opens no device prints nothing.
    assert done.stderr == "", done


def no_library():
    done = subprocess.run([sys.executable, EFA_SIM, "--library", "/no/such/file", "true"],
                          stderr=subprocess.PIPE, text=True, timeout=DEADLINE, env=environment())
    assert done.returncode == 1 and "libefa_sim.so was not found" in done.stderr, done


def environment_is_checked():
    """A mistake in EFA_SIM ends the program: it must not run with other faults."""
    needs(INFO)
    for words in ("reorder=0", "reorder", "reorder=", "reorder=1x", "no-such=1", "seed=-1"):
        tree = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sysfs")
        done = subprocess.run([INFO, "-p", "efa"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=DEADLINE,
                              env=environment(LD_PRELOAD=LIBRARY, SYSFS_PATH=tree, EFA_SIM=words))
        assert done.returncode == 2 and "efa-sim: EFA_SIM: '" in done.stderr, (words, done)


# ---- replaced functions ----

# Functions of libibverbs and libefa that the efa provider of libfabric 1.17 calls; its other calls
# go through tables of functions.
PROVIDER_CALLS = """
efadv_cq_from_ibv_cq_ex efadv_create_cq efadv_create_qp_ex efadv_query_ah efadv_query_device
ibv_alloc_pd ibv_close_device ibv_create_ah ibv_create_qp ibv_dealloc_pd ibv_dereg_mr ibv_destroy_ah
ibv_destroy_cq ibv_destroy_qp ibv_fork_init ibv_free_device_list ibv_get_device_list
ibv_get_device_name ibv_is_fork_initialized ibv_modify_qp ibv_open_device ibv_qp_to_qp_ex
ibv_query_device ibv_query_gid ibv_query_port ibv_reg_mr ibv_reg_mr_iova2
""".split()
# Functions that other providers of libfabric call, and those that return texts: libibverbs' own
# functions serve for these.
NOT_REPLACED = """
ibv_ack_cq_events ibv_create_comp_channel ibv_create_cq ibv_create_srq ibv_destroy_comp_channel
ibv_destroy_srq ibv_get_cq_event ibv_query_pkey ibv_reg_dmabuf_mr ibv_wc_status_str
""".split()


def symbols(path, *options):
    done = subprocess.run(["nm", "-D", *options, path], stdout=subprocess.PIPE, text=True,
                          timeout=DEADLINE, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def all_that_libfabric_imports():
    if shutil.which("nm") is None:
        raise Skipped("there is no nm")
    defined = symbols(LIBRARY, "--defined-only")
    assert defined == {*PROVIDER_CALLS, "efa_sim_keys", "efa_sim_counter"}, defined
    needs(INFO)
    done = subprocess.run(["ldd", INFO], stdout=subprocess.PIPE, text=True, timeout=DEADLINE,
                          check=True)
    libfabric = [line.split()[2] for line in done.stdout.splitlines() if "libfabric.so" in line][0]
    wanted = {name for name in symbols(libfabric, "--undefined-only")
              if name.startswith(("ibv_", "efadv_"))}
    # A later release may import more: update these lists then.
    assert wanted <= {*PROVIDER_CALLS, *NOT_REPLACED}, wanted


# ---- fi_info ----

def info_lists_the_device():
    needs(INFO)
    done = efa_sim("--devices", "2", INFO, "-p", "efa")
    assert done.returncode == 0, done
    for domain in ("efa_sim_0-rdm", "efa_sim_1-rdm", "efa_sim_0-dgrm", "efa_sim_1-dgrm"):
        assert "domain: %s\n" % domain in done.stdout, done.stdout
    got = counters(done.stderr)
    assert got["qps"] == 0 and set(got["left"].values()) == {0}, got
    done = efa_sim("--quiet", INFO)  # other providers open the device as well
    assert done.returncode == 0 and "efa_sim_0-rdm" in done.stdout, done


def info_of_a_device_that_fails():
    needs(INFO)
    done = efa_sim("--devices", "2", "--bad-device", "1", INFO, "-p", "efa")
    assert counters(done.stderr)["refused"] > 0, done


# ---- fi_pingpong, two processes ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(name):
            continue
        with open(name, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                    return True
    return False


def start(options, words, more):
    return subprocess.Popen([sys.executable, EFA_SIM, "--library", LIBRARY, "--leaks", "1",
                             *options, PINGPONG, "-p", "efa", *words],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(**more))


def pingpong(options, words, **more):
    """The counters of both sides. A side that leaves an object behind exits with 99."""
    needs(PINGPONG)
    port = free_port()
    server = start(options, [*words, "-B", str(port)], more)
    client = None
    try:
        until = time.monotonic() + DEADLINE
        while not listening(port):
            assert server.poll() is None, server.communicate()
            assert time.monotonic() < until, "the server does not listen"
        client = start(options, [*words, "-P", str(port), "127.0.0.1"], more)
        outputs = [client.communicate(timeout=DEADLINE), server.communicate(timeout=DEADLINE)]
        assert (client.returncode, server.returncode) == (0, 0), outputs
    finally:
        for side in (server, client):
            if side is not None and side.poll() is None:
                side.send_signal(signal.SIGKILL)
                side.wait()
    got = [counters(output[1]) for output in outputs]
    for side in got:
        assert side["program"] == "fi_pingpong" and set(side["left"].values()) == {0}, side
        assert side["qps"] > 0 and side["peers"] > 0 and side["peers_lost"] == 0, side
    assert got[0]["send_bytes"] == got[1]["recv_bytes"] > 0, got
    assert got[1]["send_bytes"] == got[0]["recv_bytes"] > 0, got
    return got


def pingpong_rdm():
    for side in pingpong((), ("-e", "rdm", "-I", "10", "-c")):
        # 10 messages of each size up to 1 MiB, and all of them through the device.
        assert side["sends"] == side["recvs"] > 1000 and side["send_bytes"] > 10 << 20, side
        assert side["reads"] == 0 and side["overtaken"] == 0 and side["injected"] == 0, side


def pingpong_rdm_out_of_order():
    for side in pingpong(("--reorder", "64"), ("-e", "rdm", "-I", "10", "-c")):
        assert side["overtaken"] > 100 and side["held"] >= side["sends"], side


def pingpong_rdm_rnr():
    for side in pingpong(("--reorder", "64", "--rnr-ppm", "50000"),
                         ("-e", "rdm", "-I", "10", "-c")):
        assert side["injected"] > 20 and side["completions"]["remote_rnr"] >= side["injected"], side


def pingpong_dgram():
    for side in pingpong((), ("-e", "dgram", "-I", "20")):
        assert side["datagrams"] == side["recvs"] > 20 and side["sends"] == 0, side


def pingpong_dgram_out_of_order():
    for side in pingpong(("--reorder", "64"), ("-e", "dgram", "-I", "20")):
        assert side["held"] == side["datagrams"] > 20, side


def pingpong_read():
    for side in pingpong((), ("-e", "rdm", "-I", "10", "-S", str(2 << 20), "-c"),
                         FI_EFA_USE_DEVICE_RDMA="1"):
        assert side["reads"] >= 10 and side["read_bytes"] >= 10 * (2 << 20), side
        assert side["send_bytes"] < 1 << 20, side


def pingpong_read_out_of_order():
    for side in pingpong(("--reorder", "16"), ("-e", "rdm", "-I", "10", "-S", str(2 << 20), "-c"),
                         FI_EFA_USE_DEVICE_RDMA="1"):
        assert side["reads"] >= 10 and side["held"] > side["reads"], side


def counters_in_a_file():
    needs(INFO)
    name = os.path.join(os.environ.get("TMPDIR", "/tmp"), "efa-sim-test-%d" % os.getpid())
    try:
        for nb in (1, 2):
            done = efa_sim("--stats", name, INFO, "-p", "efa")
            assert done.returncode == 0 and done.stderr == "", done
            with open(name, encoding="utf-8") as lines:
                assert [json.loads(line)["program"] for line in lines] == ["fi_info"] * nb
    finally:
        if os.path.exists(name):
            os.unlink(name)


TESTS = (help_names_all_keys, wrong_values, unknown_command, no_library, environment_is_checked,
         all_that_libfabric_imports, info_lists_the_device,
         info_of_a_device_that_fails, counters_in_a_file, pingpong_rdm, pingpong_rdm_out_of_order,
         pingpong_rdm_rnr, pingpong_dgram, pingpong_dgram_out_of_order, pingpong_read,
         pingpong_read_out_of_order)


def main():
    failed = 0
    print("1..%d" % len(TESTS))
    for number, test in enumerate(TESTS, 1):
        name = test.__name__.replace("_", " ")
        try:
            test()
            print("ok %d - %s" % (number, name))
        except Skipped as e:
            print("ok %d - %s # SKIP %s" % (number, name, e))
        except Exception:  # a mistake in a test fails the test, too
            failed += 1
            print("not ok %d - %s" % (number, name))
            for line in traceback.format_exc().splitlines():
                print("# " + line)
    sys.exit(failed != 0)


main()
