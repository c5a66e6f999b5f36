"""Forks a process for each order that comes over a socket: it has imported everything and used next to nothing.

Run as `python tests/fork_server.py FILE_NUMBER PREPARATION`: the number of the socket, and code that imports what the
forks shall not need to import again. `tests/forks.py` starts it. Every fork ends as an interpreter ends, with its
threads, its exit handlers, its streams and its exit code, and is killed as any other process is. Only its modules are
not taken apart at the end, which would take longer than most commands.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
from typing import Any, NoReturn


def next_order(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """An order with its files: the three standard streams, and where to tell how the process fares."""
    text, files, _, _ = socket.recv_fds(channel, 1 << 16, 4)
    if not text:
        return None
    while not text.endswith(b"\n"):
        text += channel.recv(1 << 16)
    return json.loads(text), files


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each order; returns it in the fork, and nothing in the server once nobody orders any more."""
    while found := next_order(channel):
        order, files = found
        if os.fork() == 0:
            channel.close()
            if watch(files):
                return order
            os._exit(0)
        for file in files:
            os.close(file)
        reap(os.WNOHANG)
    reap(0)
    return None


def watch(files: list[int]) -> bool:
    """Fork once more: true in the process that is ordered; the other one tells its number, and waits for its end."""
    child = os.fork()
    if child == 0:
        for number in range(3):
            os.dup2(files[number], number)
        for file in files:
            os.close(file)
        return True
    for file in files[:3]:
        os.close(file)
    os.write(files[3], b"%d\n" % child)
    _, status, usage = os.wait4(child, 0)
    os.write(files[3], b"%d %r\n" % (os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime))
    return False


def reap(flag: int) -> None:
    """Take note of the forks that have ended."""
    try:
        while os.waitpid(-1, flag)[0]:
            pass
    except ChildProcessError:
        pass


def carry_out(order: dict[str, Any]) -> None:
    """Be the process that is ordered."""
    if order["is_leader"]:
        os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    # A stream's form depends on whether it is a terminal.
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = [order["target"], *order["arguments"]]
    # As an interpreter does: the folder of the file, or the current one.
    sys.path.insert(0, os.path.dirname(order["target"]) if order["kind"] == "file" else os.getcwd())  # noqa: PTH120, PTH109
    if order["kill_after"] is not None:
        # The kernel ends a process that has no handler for this signal as it does after SIGKILL.
        signal.setitimer(signal.ITIMER_PROF, order["kill_after"])
    if order["kind"] == "module":
        runpy.run_module(order["target"], run_name="__main__", alter_sys=True)
    elif order["kind"] == "file":
        runpy.run_path(order["target"], run_name="__main__")
    else:
        sys.argv[0] = "-c"
        exec(order["target"], {"__name__": "__main__"})


def exit_code_of(order: dict[str, Any]) -> int:
    """Carry out an order; return the exit code that an interpreter would have."""
    try:
        carry_out(order)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def end(code: int) -> NoReturn:
    """End as an interpreter does, up to where it would take its modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            code = 120
            if stream is sys.stdout:
                print(f"Exception ignored in {stream!r}: {error!r}", file=sys.stderr, flush=True)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which no other process has there
    exec(sys.argv[2], {"__name__": "preparation"})
    gc.freeze()  # no fork looks through what all of them share
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        order = serve(channel)
    if order is not None:
        end(exit_code_of(order))
