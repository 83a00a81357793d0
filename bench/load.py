"""Sends the load with wrk, or with our own client on machines without wrk.

Both keep connections open, send the next request when the reply is complete, and stop on time.
Their latencies cannot be compared: wrk adds the time for which requests had to wait.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from bench.errors import BenchError
from bench.signing import Request
from bench.workload import FRESH_ID

T = TypeVar("T")

# Enough for the slowest reply of a busy server; a run also stops if a reply is lost.
_GRACE_SECONDS: Final = 60.0
_SIGNED_SECONDS: Final = 900.0  # after that the server refuses the requests

_runs = itertools.count(1)  # makes fresh ids differ from run to run


class Sample(NamedTuple):
    """The result of one run; latencies are in milliseconds."""

    requests: int
    seconds: float
    received: int  # bytes, headers included
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


# (port, requests, status that means success, connections, seconds) -> result
Driver = Callable[[int, Sequence[Request], int, int, float], Sample]


def drivers(scratch: Path) -> dict[str, Driver]:
    """The drivers that are installed, best first."""
    installed: dict[str, Driver] = {}
    program = shutil.which("wrk")
    if program is not None:
        installed["wrk"] = Wrk(program, scratch)
    installed["bundled"] = run_bundled
    return installed


_SCRIPT: Final = """\
-- Arguments: file of requests, number of the run, number of threads.
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local heads, tails = {}, {}
local count, at, made, run = 0, 0, 0, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  while true do
    local sizes = file:read(16)
    if not sizes then break end
    local tail = tonumber(sizes:sub(9))
    count = count + 1
    heads[count] = file:read(tonumber(sizes:sub(1, 8)))
    tails[count] = tail > 0 and file:read(tail)
  end
  file:close()
  run = tonumber(args[2])
  at = math.floor(number * count / tonumber(args[3]))
end

function request()
  at = at % count + 1
  local tail = tails[at]
  if not tail then return heads[at] end
  made = made + 1
  return heads[at] .. string.format("FRESH_ID", run, number, made) .. tail
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    'BENCH {"requests":%d,"microseconds":%d,"received":%d,"p50":%.0f,"p99":%.0f,'
      .. '"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}',
    summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end
""".replace("FRESH_ID", FRESH_ID)


class Wrk:
    """Sends requests with wrk, whose script reads them from a file."""

    def __init__(self, program: str, scratch: Path) -> None:
        self._program = program
        self._script = scratch / "load.lua"
        self._requests = scratch / "requests.bin"
        self._script.write_text(_SCRIPT)

    def __call__(
        self, port: int, requests: Sequence[Request], status: int, connections: int, seconds: float
    ) -> Sample:
        self._requests.write_bytes(b"".join(map(_packed, requests)))
        # One thread saturates either server; a second one only if the servers keep their cores.
        threads = min(connections, 2 if _cores() > 2 else 1)
        command = [self._program, "-t", str(threads), "-c", str(connections)]
        # A slow server is no failure: the run stops on time, with replies missing.
        command += ["-d", f"{max(round(seconds), 1)}s", "--timeout", f"{_SIGNED_SECONDS:.0f}s"]
        command += ["-s", str(self._script), f"http://127.0.0.1:{port}/", "--"]
        command += [str(self._requests), str(next(_runs)), str(threads)]
        return _wrk_sample(_output(command, seconds + _GRACE_SECONDS), status)


def _output(command: Sequence[str], limit: float) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise BenchError(f"wrk did not exit within {limit:.0f} s") from None
    if done.returncode != 0 or "BENCH " not in done.stdout:
        raise BenchError(f"wrk failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _wrk_sample(output: str, status: int) -> Sample:
    values: dict[str, Any] = json.loads(output.partition("BENCH ")[2].splitlines()[0])
    if values["status"]:
        raise BenchError(f"{values['status']} of {values['requests']} replies were not {status}")
    broken = {
        name: values[name] for name in ("connect", "read", "write", "timeout") if values[name]
    }
    if broken:
        raise BenchError(f"wrk lost requests: {broken}")
    if not values["requests"]:
        raise BenchError("no request was answered")
    return Sample(
        requests=values["requests"],
        seconds=values["microseconds"] / 1e6,
        received=values["received"],
        p50_ms=values["p50"] / 1e3,
        p99_ms=values["p99"] / 1e3,
    )


def _packed(request: Request) -> bytes:
    sizes = f"{len(request.head):08d}{len(request.tail):08d}".encode()
    return sizes + request.head + request.tail


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))  # fewer in a container or with taskset
    return os.cpu_count() or 1


def run_bundled(
    port: int, requests: Sequence[Request], status: int, connections: int, seconds: float
) -> Sample:
    """Sends requests with the client of this module for `seconds`."""
    return run_spread([port], requests, status, connections, seconds)


def run_spread(
    ports: Sequence[int],
    requests: Sequence[Request],
    status: int,
    connections: int,
    seconds: float,
) -> Sample:
    """Like `run_bundled`, with the connections spread over the servers on these ports."""
    return on_fast_loop(_drive(ports, _endless(requests), status, connections, seconds))


def send_all(port: int, requests: Iterable[bytes], status: int, connections: int = 1) -> Sample:
    """Sends each request once."""
    return on_fast_loop(_drive([port], iter(requests), status, connections, None))


def _endless(requests: Sequence[Request]) -> Iterator[bytes]:
    run = next(_runs)
    for made, (head, tail) in enumerate(itertools.cycle(requests)):
        yield head + (FRESH_ID % (run, 0, made)).encode() + tail if tail else head


async def _drive(
    ports: Sequence[int],
    requests: Iterator[bytes],
    status: int,
    connections: int,
    seconds: float | None,
) -> Sample:
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    counter = _RunCounter(requests, status, None if seconds is None else began + seconds)
    limit = _SIGNED_SECONDS if seconds is None else seconds + _GRACE_SECONDS
    try:
        async with asyncio.timeout(limit):
            opened = [
                (await loop.create_connection(lambda: _Connection(counter), "127.0.0.1", port))[1]
                for port in itertools.islice(itertools.cycle(ports), connections)
            ]
            await asyncio.gather(*(connection.ended for connection in opened))
    except TimeoutError:
        raise BenchError(f"replies were still missing after {limit:.0f} s") from None
    except OSError as exc:
        listed = ", ".join(map(str, ports))
        raise BenchError(f"cannot connect to port {listed}: {exc.strerror}") from exc
    return counter.sample(time.perf_counter() - began)


class _RunCounter:
    """The state that the connections of one run share."""

    def __init__(self, requests: Iterator[bytes], status: int, deadline: float | None) -> None:
        self.requests = requests
        self.status_line = f"HTTP/1.1 {status} ".encode()
        self.deadline = deadline
        self.latencies = array("d")
        self.received = 0
        self.failure: str | None = None

    def next_request(self, now: float) -> bytes | None:
        is_late = self.deadline is not None and now >= self.deadline
        if is_late or self.failure is not None:
            return None
        return next(self.requests, None)

    def sample(self, seconds: float) -> Sample:
        if self.failure is not None:
            raise BenchError(self.failure)
        if not self.latencies:
            raise BenchError("no request was answered")
        ordered = sorted(self.latencies)
        return Sample(
            requests=len(ordered),
            seconds=seconds,
            received=self.received,
            p50_ms=ordered[len(ordered) // 2] * 1e3,
            p99_ms=ordered[len(ordered) * 99 // 100] * 1e3,
        )


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self, counter: _RunCounter) -> None:
        self._counter = counter
        self._buffer = bytearray()
        self._expected = 0  # length of the reply, once its headers have arrived
        self._sent_at = 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass
        self._send_next(time.perf_counter())

    def data_received(self, received: bytes) -> None:
        self._buffer += received
        if not self._expected:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            headers = bytes(self._buffer[: end + 2])
            length = _content_length(headers)
            if length is None:
                self._fail("a reply came without Content-Length")
                return
            self._expected = end + 4 + length
        if len(self._buffer) >= self._expected:
            self._complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the server closed a connection: {exc or 'no reason given'}")

    def _complete(self) -> None:
        now = time.perf_counter()
        counter = self._counter
        if not self._buffer.startswith(counter.status_line):
            self._fail(f"unexpected reply: {bytes(self._buffer[:600]).decode(errors='replace')}")
            return
        counter.latencies.append(now - self._sent_at)
        counter.received += self._expected
        self._buffer.clear()
        self._expected = 0
        self._send_next(now)

    def _send_next(self, now: float) -> None:
        request = self._counter.next_request(now)
        if request is None:
            self._end()
            return
        self._sent_at = now
        self._transport.write(request)

    def _fail(self, reason: str) -> None:
        """The first failure stops the run; the other connections finish their requests."""
        if not self.ended.done() and self._counter.failure is None:
            self._counter.failure = reason
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        self._transport.close()


def _content_length(headers: bytes) -> int | None:
    name = b"\r\ncontent-length:"
    at = headers.lower().find(name)
    if at < 0:
        return None
    start = at + len(name)
    return int(headers[start : headers.index(b"\r\n", start)])


def on_fast_loop(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it exists, so that the client is not the bottleneck."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)
