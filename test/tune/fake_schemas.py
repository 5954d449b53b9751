# SPDX-License-Identifier: BSD-3-Clause
"""Components of a fake process: descriptions as people write them, and leat-tune-gen's output for
them."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib

REACTOR = """
component = "reactor"
title = "Reactors"
help = "The poll loop of an lcore."

[[setting]]
name = "idle_policy"
type = "enum"
values = ["auto", "spin", "pause", "yield", "sleep", "block"]
default = "auto"
when = "now"
aliases = ["idle"]
help = "What the loop does after a turn in which nothing happened."

[[setting]]
name = "spin_us"
type = "integer"
unit = "us"
range = [1, 1000000]
default = 50
when = "now"
log = true
help = "Idle time before the first sleep, for the policies sleep and block."

[[setting]]
name = "sleep_min_us"
type = "integer"
unit = "us"
range = [1, 1000000]
default = 10
when = "now"
log = true
help = "First sleep of the policy sleep; each further one is twice as long."

[[setting]]
name = "sleep_max_us"
type = "integer"
unit = "us"
range = [1, 1000000]
default = 250
when = "now"
log = true
help = "Longest sleep of the policy sleep."

[[setting]]
name = "ep_burst"
type = "integer"
unit = "ops"
range = [1, 32]
default = 32
when = "now"
help = "Ops that are taken from an endpoint at once."

[[setting]]
name = "max_pollers"
type = "integer"
unit = "pollers"
range = [1, 65535]
default = 64
when = "start"
log = true
help = "Pollers at most."

[[group]]
name = "sleep"
settings = ["sleep_min_us", "sleep_max_us"]
rule = "sleep_min_us <= sleep_max_us"
help = "Steps of the policy sleep."

[[report]]
name = "lcore"
kind = "gauge"
type = "integer"
help = "The lcore that runs it."

[[report]]
name = "state"
kind = "gauge"
type = "enum"
values = ["ready", "running", "stopping", "stopped"]
help = "Where the reactor is in its life."

[[report]]
name = "turns"
kind = "counter"
type = "integer"
unit = "turns"
help = "Turns of the loop."

[[report]]
name = "busy_ns"
kind = "counter"
type = "integer"
unit = "ns"
help = "Time in pollers that worked, in timers and in messages."

[[report]]
name = "idle_ns"
kind = "counter"
type = "integer"
unit = "ns"
help = "Time in pollers that found nothing, and in the loop itself."

[[report]]
name = "sleep_ns"
kind = "counter"
type = "integer"
unit = "ns"
help = "Time given away: asleep, blocked or yielded."

[[report]]
name = "turn_max_ns"
kind = "gauge"
type = "integer"
unit = "ns"
aggregate = "max"
help = "Longest turn, without sleep."

[[report]]
name = "pollers"
kind = "gauge"
type = "integer"
unit = "pollers"
aggregate = "sum"
help = "Pollers that it has."

[[report]]
name = "stalled_ns"
kind = "gauge"
type = "integer"
unit = "ns"
aggregate = "max"
help = "For how long it has stood in the same turn without being asleep; 0: it turns."

[[report]]
name = "running"
kind = "text"
type = "string"
size = 96
help = "The function that it is in at this moment."
"""

POLLER = """
component = "poller"
title = "Pollers"
help = "A poller of a reactor."

[[report]]
name = "state"
kind = "gauge"
type = "enum"
values = ["unregistered", "waiting", "running", "paused", "failed"]
help = "Whether it is called."

[[report]]
name = "runs"
kind = "counter"
type = "integer"
unit = "calls"
help = "Times it was called."

[[report]]
name = "busy_runs"
kind = "counter"
type = "integer"
unit = "calls"
help = "Of those, times it had work."

[[report]]
name = "busy_ns"
kind = "counter"
type = "integer"
unit = "ns"
help = "Time in the calls that had work."
"""

ENDPOINT = """
component = "endpoint"
title = "Endpoints"
help = "What a loop posts ops to, and polls."

[[setting]]
name = "latency_sample"
type = "integer"
unit = "ops"
range = [1, 1000000]
special = { off = 0 }
default = "off"
when = "now"
log = true
help = "Every n-th op is timed, from post to poll."

[[setting]]
name = "inline_max"
type = "integer"
unit = "bytes"
range = [0, 1048576]
special = { automatic = -1 }
default = "automatic"
when = "now"
quantum = 16
help = "Sends of up to so many bytes are copied when posted."

[[setting]]
name = "tx_depth"
type = "integer"
unit = "ops"
range = [1, 1048576]
special = { automatic = 0 }
default = "automatic"
when = "next"
log = true
help = "Sends and one-sided ops in flight."

[[report]]
name = "device"
kind = "text"
type = "string"
size = 64
help = "Its device."

[[report]]
name = "state"
kind = "gauge"
type = "enum"
values = ["open", "draining", "aborting", "shut"]
help = "Whether it is open, or how far its end has come."

[[report]]
name = "listening"
kind = "gauge"
type = "bool"
help = "It listens for peers."

[[report]]
name = "posted"
kind = "counter"
type = "integer"
unit = "ops"
help = "Ops that were accepted."

[[report]]
name = "returned"
kind = "counter"
type = "integer"
unit = "ops"
help = "Ops that poll returned."

[[report]]
name = "errors"
kind = "counter"
type = "integer"
unit = "ops"
help = "Ops that failed."

[[report]]
name = "tx_bytes"
kind = "counter"
type = "integer"
unit = "bytes"
help = "Bytes of successful sends and writes."

[[report]]
name = "rx_bytes"
kind = "counter"
type = "integer"
unit = "bytes"
help = "Bytes of successful receives, reads and atomics."

[[report]]
name = "inflight"
kind = "gauge"
type = "integer"
unit = "ops"
aggregate = "sum"
help = "Ops with the device."

[[report]]
name = "load"
kind = "gauge"
type = "real"
aggregate = "max"
help = "Part of the depth that is in use."

[[report]]
name = "latency_send"
kind = "histogram"
unit = "ns"
help = "Time from post to poll of SEND ops, of those that were measured."

[[report]]
name = "latency_write"
kind = "histogram"
unit = "ns"
help = "Time from post to poll of WRITE ops, of those that were measured."
"""

PEER = """
component = "peer"
title = "Peers"
help = "A remote endpoint."

[[report]]
name = "state"
kind = "gauge"
type = "enum"
values = ["free", "connecting", "requested", "accepted", "up", "closing", "down"]
help = "Where the connection is."

[[report]]
name = "address"
kind = "text"
type = "string"
size = 128
help = "Where the peer is."

[[report]]
name = "posted"
kind = "counter"
type = "integer"
unit = "ops"
help = "Ops that were posted on its send queue."

[[report]]
name = "inflight"
kind = "gauge"
type = "integer"
unit = "ops"
aggregate = "sum"
help = "Ops with the device that name it."
"""

LOG = """
component = "log"
title = "Logs"
help = "What is written to the log."

[[setting]]
name = "level"
type = "enum"
values = ["off", "error", "warning", "info", "debug"]
default = "info"
when = "now"
help = "Messages of this level and above are written."

[[setting]]
name = "sync"
type = "bool"
default = false
when = "now"
help = "Each message is written at once."

[[setting]]
name = "share"
type = "real"
range = [0.0, 1.0]
default = 0.5
when = "now"
help = "Part of the messages that is kept under pressure."

[[setting]]
name = "prefix"
type = "string"
size = 32
default = "leat"
when = "now"
help = "Stands before each message."

[[report]]
name = "lines"
kind = "counter"
type = "integer"
unit = "messages"
help = "Messages that were written."
"""

DESCRIPTIONS = {"reactor": REACTOR, "poller": POLLER, "endpoint": ENDPOINT, "peer": PEER,
                "log": LOG}


def _bytes(one: dict) -> int:
    if one["type"] == "string":
        return (one["size"] + 7) // 8 * 8
    return 912 if one["type"] == "histogram" else 8


def _laid_out(those: list[dict]) -> list[dict]:
    offset = 0
    for one in those:
        one |= {"offset": offset, "bytes": _bytes(one)}
        offset += one["bytes"]
    return those


def schema_of(text: str) -> dict:
    """Return the schema of a description, without the checks of leat-tune-gen."""
    tree = tomllib.loads(text)
    groups = tree.get("group", [])
    settings = []
    for one in tree.get("setting", []):
        if "range" in one:
            one["min"], one["max"] = one.pop("range")
        one["default"] = one.get("special", {}).get(one["default"], one["default"]) \
            if isinstance(one["default"], str) else one["default"]
        one["group"] = next((g["name"] for g in groups if one["name"] in g["settings"]), None)
        settings.append(one)
    reports = [{"type": "histogram", **one} if one["kind"] == "histogram" else one
               for one in tree.get("report", [])]
    schema = {"component": tree["component"], "title": tree["title"], "help": tree["help"],
              "hash": "",
              "settings": _laid_out(settings), "groups": groups, "reports": _laid_out(reports)}
    layout = json.dumps(schema, sort_keys=True).encode()
    schema["hash"] = f"0x{int.from_bytes(hashlib.sha256(layout).digest()[:8], 'little') or 1:016x}"
    return schema


@functools.lru_cache
def schema_text(description: str) -> bytes:
    """Return the schema as it is stored in a block."""
    return json.dumps(schema_of(description), separators=(",", ":")).encode()
