# SPDX-License-Identifier: BSD-3-Clause
"""gdb commands for the tasks of a leat program, running or dumped:

    (gdb) source PREFIX/share/leat/gdb/leat-gdb.py      # or devtools/leat-gdb.py of the source tree
    (gdb) leat tasks            # all tasks: reactor, id, state, name, what they wait for
    (gdb) leat bt 7             # the backtrace of the suspended task with id 7
    (gdb) leat bt 7 loop        # task 7 of the reactor named loop, if several have a task 7

gdb loads this file itself for a libleat that is installed below gdb's own prefix.

The commands need debug information of libleat, for its private structures: a libleat.so built with
-Dbuildtype=debugoptimized (the default) or -Ddebug=true and not stripped, or separate debug symbols
that gdb finds. The program itself may lack debug information. The commands change nothing in it:
while a backtrace is computed, an unwinder tells gdb that the innermost frame was called by the code
in which the task is suspended.
"""

import os

import gdb
import gdb.unwinder

STATES = ["FREE", "READY", "RUNNING", "WAITING", "DONE"]

# Registers saved in struct task_frame, with the fields that hold them.
X86_64 = {
    "rip": "rip",
    "rbp": "rbp",
    "rbx": "rbx",
    "r12": "r12",
    "r13": "r13",
    "r14": "r14",
    "r15": "r15",
}
AARCH64 = {f"x{n}": f"x{n}" for n in range(19, 31)}


def why_nothing_is_known():
    """Return the reason: debug information is missing, or libleat is not loaded."""
    names = [o.filename for o in gdb.objfiles() if o.filename]
    for name in names:
        if os.path.basename(name).startswith("libleat.so"):
            return (f"{name} has no debug information, which these commands need: build leat with "
                    "-Dbuildtype=debugoptimized and don't strip it, or install its debug symbols")
    if not names:
        return "no program: name one, or attach to one"
    return "libleat is not loaded: the program does not use it, or has not been started yet"


def registry():
    """Yield the tasks object of each reactor."""
    symbol = gdb.lookup_global_symbol("task_registry")
    if symbol is None:
        raise gdb.GdbError(why_nothing_is_known())
    array = symbol.value()
    low, high = array.type.range()
    for i in range(low, high + 1):
        if int(array[i]) != 0:
            yield array[i].dereference()


def tasks(ts):
    for i in range(int(ts["nb_stacks"])):
        task = ts["blocks"][i]
        if int(task["state"]) != 0:
            yield task


def reactor_name(ts):
    try:
        return ts["reactor"].dereference()["name"].string()
    except gdb.error:
        return "?"


class FrameId:
    """The id of the frame that the task seems to have called: a stack pointer below the task's."""

    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Unwinder(gdb.unwinder.Unwinder):
    """Unwinds from the innermost frame to a task; inactive unless a task is set."""

    def __init__(self):
        super().__init__("leat-task")
        self.task = None
        self.first = True

    def __call__(self, pending):
        if self.task is None or not self.first:
            return None
        self.first = False
        arm = "aarch64" in pending.architecture().name()
        sp, pc = ("sp", "pc") if arm else ("rsp", "rip")
        word = gdb.lookup_type("unsigned long")
        frame_type = gdb.lookup_type("struct task_frame")
        address = int(self.task["sp"])
        frame = gdb.Value(address).cast(frame_type.pointer()).dereference()
        info = pending.create_unwind_info(
            FrameId(gdb.Value(address).cast(word.pointer()), pending.read_register(pc)))
        for register, field in (AARCH64 if arm else X86_64).items():
            info.add_saved_register(register, frame[field].cast(word))
        info.add_saved_register(sp, gdb.Value(address + frame_type.sizeof).cast(word))
        if arm:
            info.add_saved_register("pc", frame["x30"].cast(word))
        return info


UNWINDER = Unwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def describe(frame, number):
    sal = frame.find_sal()
    place = f" at {sal.symtab.filename}:{sal.line}" if sal.symtab is not None else ""
    return f"#{number:<2} 0x{frame.pc():016x} in {frame.name() or '??'}{place}"


def backtrace(task):
    UNWINDER.task = task
    UNWINDER.first = True
    gdb.invalidate_cached_frames()
    try:
        frame = gdb.newest_frame().older()
        number = 0
        while frame is not None and frame.is_valid():
            print(describe(frame, number))
            # task_begin() is the outermost function of each task's stack.
            if frame.name() == "task_begin":
                break
            frame = frame.older()
            number += 1
    finally:
        UNWINDER.task = None
        gdb.invalidate_cached_frames()


def task_name(task):
    """Return a task's name, or that of its function if it has none."""
    name = task["name"].string()
    if name:
        return name
    fn = task["branch_fn"] if int(task["scope"]) != 0 else task["fn"]
    symbol = gdb.execute(f"info symbol {int(fn)}", to_string=True)
    return "task" if symbol.startswith("No symbol") else symbol.split()[0]


class Leat(gdb.Command):
    """Commands for leat: "leat tasks", "leat bt ID"."""

    def __init__(self):
        super().__init__("leat", gdb.COMMAND_USER, prefix=True)


class LeatTasks(gdb.Command):
    """List the tasks of all reactors."""

    def __init__(self):
        super().__init__("leat tasks", gdb.COMMAND_STATUS)

    def invoke(self, _argument, _from_tty):
        for ts in registry():
            for task in tasks(ts):
                wait = ""
                if int(task["state"]) == STATES.index("WAITING"):
                    wait = " in " + task["wait"]["type"]["name"].string()
                print(f"{reactor_name(ts)} {int(task['id'])} {STATES[int(task['state'])]} "
                      f"{task_name(task)}{wait}")


class LeatBt(gdb.Command):
    """Show the backtrace of a suspended task: leat bt ID [REACTOR]"""

    def __init__(self):
        super().__init__("leat bt", gdb.COMMAND_STACK)

    def invoke(self, argument, _from_tty):
        args = gdb.string_to_argv(argument)
        if not 1 <= len(args) <= 2 or not args[0].isdigit():
            raise gdb.GdbError("usage: leat bt ID [REACTOR]")
        for ts in registry():
            if len(args) == 2 and reactor_name(ts) != args[1]:
                continue
            for task in tasks(ts):
                if int(task["id"]) != int(args[0]):
                    continue
                state = STATES[int(task["state"])]
                if state == "RUNNING":
                    raise gdb.GdbError("it is running: see the backtrace of its thread")
                if state == "DONE" or int(task["sp"]) == 0:
                    raise gdb.GdbError("it has not begun" if state == "READY" else "it has ended")
                backtrace(task)
                return
        raise gdb.GdbError(f"no task {args[0]}; see leat tasks")


Leat()
LeatTasks()
LeatBt()
