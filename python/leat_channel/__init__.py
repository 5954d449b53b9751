# SPDX-License-Identifier: BSD-3-Clause
"""leat's channel: frames through shared memory, safe against kills, from Python.

The same operations as leat_channel.h, on libleat-channel.so, without a build step:

    from leat_channel import Channel, unlink

    with Channel.create("/watch") as ch:        # one process
        ch.send(1, b"hello")
        ch.terminate()                          # the orderly end

    with Channel.open("/watch") as ch:          # another one
        for frame in ch:                        # until terminated
            print(frame.type, frame.hash, frame.data)
    unlink("/watch")

What leat_channel.h promises holds here, too, whoever is killed and when. Errors are ChannelErrors, which
are OSErrors, with the library's words. Frames can be filled and read where they lie: Channel.reserve() and
Channel.peek() give memoryviews. doc/guide/channel.md says how it works.
"""

from ._abi import (
    BURST,
    DELIVERIES,
    HEADER,
    PARTICIPANTS_MAX,
    SIZE_MAX,
    SIZE_MIN,
    ArmFor,
    Full,
    Invalid,
    Notify,
    OnDeath,
    WaitHow,
    load,
)
from ._channel import Channel, inspect, unlink
from ._errors import (
    Busy,
    ChannelError,
    Closed,
    Corrupt,
    Denied,
    Exists,
    NotFound,
    Terminated,
    TimedOut,
    WouldBlock,
)
from ._info import Info, Who
from ._views import Frame, Frames, Reservation, Sent

__all__ = [
    "BURST",
    "DELIVERIES",
    "HEADER",
    "PARTICIPANTS_MAX",
    "SIZE_MAX",
    "SIZE_MIN",
    "ArmFor",
    "Busy",
    "Channel",
    "ChannelError",
    "Closed",
    "Corrupt",
    "Denied",
    "Exists",
    "Frame",
    "Frames",
    "Full",
    "Info",
    "Invalid",
    "NotFound",
    "Notify",
    "OnDeath",
    "Reservation",
    "Sent",
    "Terminated",
    "TimedOut",
    "WaitHow",
    "Who",
    "WouldBlock",
    "inspect",
    "load",
    "unlink",
]
