# SPDX-License-Identifier: BSD-3-Clause
"""leat's channel from Python: frames through shared memory, safe when a process is killed.

The operations are those of leat_channel.h. The package calls libleat-channel.so through ctypes and
needs no build step:

    from leat_channel import Channel, unlink

    with Channel.create("/watch") as ch:        # one process
        ch.send(1, b"hello")
        ch.terminate()                          # end the channel cleanly

    with Channel.open("/watch") as ch:          # another process
        for frame in ch:                        # until the channel is terminated
            print(frame.type, frame.hash, frame.data)
    unlink("/watch")

The promises of leat_channel.h hold here as well, whichever process is killed at whatever moment.
Errors are raised as ChannelError, a subclass of OSError, with the library's message. Frames can be
filled and read in shared memory, without a copy: Channel.reserve() and Channel.peek() return
memoryviews. doc/guide/channel.md explains how a channel works.
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
