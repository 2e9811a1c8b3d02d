"""The engine's interface, and the dependency tracking that all engines share."""

from __future__ import annotations

import _thread
import itertools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

from ..base import MXNetError
from . import bulking, lifecycle
from .operation import Block, Bulk, Operator, RunContext
from .var import Failure, Var

__all__ = ["Engine", "running"]

# A worker that waits looks this often (seconds) whether it waits for itself.
_LOOK_FOR_DEADLOCK = 0.2

# Returned by `locked` for an action that the frame with the lock will run.
_DEFERRED = object()


def _new_event() -> Any:
    """A raw lock, taken: whoever takes it again waits until it is released."""
    event = _thread.allocate_lock()
    event.acquire()
    return event


_Running: TypeAlias = "tuple[Block, Operator, _Running | None]"


class _Local(threading.local):
    running: _Running | None = None              # the running function of this thread, linked to the one it interrupted
    worker: Any = None                           # the pool worker that this thread is


_local = _Local()


def running() -> bool:
    """Returns whether this thread runs a function of an engine."""
    return _local.running is not None


class _Completion:
    """The `on_complete` handed to an asynchronous function."""

    __slots__ = ("_engine", "_block", "_op", "_once")

    def __init__(self, engine: Engine, block: Block, op: Operator) -> None:
        self._engine = engine
        self._block = block
        self._op = op
        self._once = _thread.allocate_lock()

    def __call__(self, error: Any = None) -> None:
        """Completes the function; call it once, from any thread.

        Args:
            error: the exception with which it failed; a string becomes an MXNetError; None:
                success.
        """
        if not self._once.acquire(blocking=False):
            raise MXNetError(f"engine: on_complete of {self._op.name} was called twice")
        if error is not None and not isinstance(error, BaseException):
            error = MXNetError(str(error))
        self._engine.complete_async(self._block, self._op, error)

    def failed(self, error: BaseException) -> None:
        """Reports that the function raised `error`, before or after its completion."""
        if self._once.acquire(blocking=False):
            self._engine.complete_async(self._block, self._op, error)
        else:
            self._engine.keep(self._op, error)

    def __del__(self) -> None:
        if self._once.acquire(blocking=False):
            error = MXNetError(f"engine: {self._op.name} dropped its on_complete without calling it")
            self._engine.complete_async(self._block, self._op, error)


class Engine(ABC):
    """Runs functions as soon as their variables are available.

    If one of two functions mutates a shared variable, they run in the order in which they were
    pushed; functions that only read it may run in parallel. The functions may do anything: the
    engine does not depend on arrays.

    An exception in a function is stored in every variable that it mutates. A function that uses
    such a variable does not run, and the error propagates to the variables that it mutates. The
    next wait for any of them raises the error with its original traceback, and clears it for all of
    them.

    >>> engine, store = mx.engine.get(), {}
    >>> page, words = engine.new_variable("page"), engine.new_variable("words")
    >>> engine.push(lambda run_ctx: store.update(page="to be or not"), (), (page,))
    >>> engine.push(lambda run_ctx: store.update(words=len(store["page"].split())), (page,), (words,))
    >>> engine.wait_for_var(words)
    >>> store["words"]
    4

    Subclasses determine where a function runs once its variables are available. One lock, held only
    for bookkeeping, protects all state. It is re-entrant, because a destructor or a signal handler
    may push during bookkeeping; such calls are deferred until it is done.

    Each device (`ctx`) has its own compute workers. ``lane="io"`` is for reading, writing and
    copying, so that these do not delay computation. ``lane="priority"`` has separate workers for
    work that must not wait for either. ``lane="compile"`` has one worker per processor, for long
    work that does not hold Python's lock. Within a lane, ready functions with higher `priority` run
    first.
    """

    _can_bulk = True

    def __init__(self) -> None:
        self.reset()
        lifecycle.register(self)

    def reset(self) -> None:
        """Forget all work and all threads."""
        _local.running = None
        self.lock = threading.RLock()
        self._inside = False                                    # a thread is in the bookkeeping
        self._deferred: deque[tuple[Callable[[Any], Any], Any]] = deque()
        self.pending: dict[Block, None] = {}                  # pushed, not completed; in push order
        self.open_blocks: dict[int, Bulk] = {}                       # thread -> the block its bulk may add to
        self.failures: dict[Failure, None] = {}               # kept, not raised; oldest first
        self._idle_events: list[Any] = []                       # set when `pending` becomes empty
        self._seq = itertools.count()

    # ---- defined by each engine

    @abstractmethod
    def _dispatch(self, block: Block) -> None:
        """Take a block whose variables are all granted.  Called in the bookkeeping, so it must not run it."""

    def _submit(self, block: Block) -> None:
        """Enqueue a block."""
        self.locked(self._enqueue, block)

    def _blocked(self) -> Any:
        """A scope around a wait in a thread that runs a function of this engine."""
        return nullcontext()

    # ---- variables

    def new_variable(self, name: str | None = None) -> Var:
        """Creates a variable; `name` appears in messages."""
        return Var(name)

    def delete_variable(self, var: Var, on_delete: Callable[[RunContext], Any] | None = None) -> None:
        """Deletes `var` after all its pending uses. It can no longer be used in a push.

        Args:
            var: the variable.
            on_delete: function that is called with a RunContext after the last use, even if `var`
                contains an error.
        """
        op = Operator(on_delete or _nothing, (), (var,), f"delete {var}", always=True)
        block = self._prepare(op, None, 0)
        var.deleted = True
        self._submit(block)

    def set_exception(self, var: Var, error: BaseException) -> None:
        """Stores `error` in `var` immediately, as if the function that last mutated it had raised it."""
        if not isinstance(error, BaseException):
            raise MXNetError(f"engine: set_exception({var}): expected an exception, got {error!r}")
        failure = Failure(error, error.__traceback__, f"set_exception of {var}")
        with self.lock:
            self.failures[failure] = None
            var.failure = failure

    # ---- pushing

    def push(self, fn: Callable[[RunContext], Any], const_vars: Iterable[Var] = (), mutate_vars: Iterable[Var] = (), *,
             ctx: Hashable = None, priority: int = 0, name: str | None = None, lane: str = "compute",
             resources: Sequence[Any] = ()) -> None:
        """Schedules ``fn(run_ctx)`` to run as soon as its variables are available, and returns immediately.

        Args:
            fn: the function; its result is ignored.
            const_vars: variables that it reads.
            mutate_vars: variables that it mutates (and may read).
            ctx: the device for which it runs, any hashable object; each device has its own workers.
            priority: ready functions with higher priority run first.
            name: name for messages; by default the function's.
            lane: group of workers that runs it: "compute", "io", "priority" or "compile".
            resources: passed to the function as ``run_ctx.resources``.

        Raises:
            MXNetError: a variable occurs twice in the lists, or was deleted.
        """
        self.push_operator(Operator(fn, const_vars, mutate_vars, name, False, lane, resources),
                           ctx=ctx, priority=priority)

    def push_async(self, fn: Callable[[RunContext, Callable[..., None]], Any], const_vars: Iterable[Var] = (),
                   mutate_vars: Iterable[Var] = (), *, ctx: Hashable = None, priority: int = 0,
                   name: str | None = None, lane: str = "compute", resources: Sequence[Any] = ()) -> None:
        """Schedules ``fn(run_ctx, on_complete)``, which is complete when
        ``on_complete(error=None)`` is called from any thread.

        Arguments as in `push`. The function is also complete if `fn` raises, or drops `on_complete`
        without calling it.
        """
        self.push_operator(Operator(fn, const_vars, mutate_vars, name, True, lane, resources),
                           ctx=ctx, priority=priority)

    def push_sync(self, fn: Callable[[RunContext], Any], const_vars: Iterable[Var] = (),
                  mutate_vars: Iterable[Var] = (), *, ctx: Hashable = None, priority: int = 0,
                  name: str | None = None, lane: str = "compute", resources: Sequence[Any] = ()) -> Any:
        """Runs ``fn(run_ctx)`` like `push`, and waits for it.

        Returns:
            The result of `fn`.

        Raises:
            The error of `fn`, or the one stored in its variables, which is then cleared.
        """
        block = self._prepare(Operator(fn, const_vars, mutate_vars, name, False, lane, resources), ctx, priority)
        block.event = _new_event()
        self._refuse_in_bookkeeping()
        if _local.running is not None:
            self._refuse_conflict(block)
        self._submit(block)
        self._sleep(block)
        if block.failure is not None:
            self._raise(block.failure)
        return block.result

    def new_operator(self, fn: Callable[..., Any], const_vars: Iterable[Var] = (), mutate_vars: Iterable[Var] = (), *,
                     name: str | None = None, is_async: bool = False, lane: str = "compute",
                     resources: Sequence[Any] = ()) -> Operator:
        """Prepares a call that `push_operator` can push repeatedly.

        Args:
            is_async: whether `fn` is a function for `push_async`. Other arguments as in `push`.
        """
        return Operator(fn, const_vars, mutate_vars, name, is_async, lane, resources)

    def push_operator(self, op: Operator, *, ctx: Hashable = None, priority: int = 0) -> None:
        """Pushes a prepared call; see `push`."""
        if bulking.local.size and self._can_bulk and not op.is_async:
            self._refuse_deleted(op)
            self.locked(self._append, (op, ctx, priority))
        else:
            self._submit(self._prepare(op, ctx, priority))

    def delete_operator(self, op: Operator) -> None:
        """Deletes a prepared call. Calls that are already pushed still run."""
        op.deleted = True

    # ---- waiting

    def wait_for_var(self, var: Var) -> None:
        """Waits for all writes to `var` that have been pushed.

        Inside a running function that reads `var`, these writes have finished, so this returns
        immediately.

        Raises:
            The error stored in `var`, which is then cleared.
            MXNetError: the calling function itself mutates `var`, so the wait would never end.
        """
        if var.writes and not (_local.running and self._read_here(var)):
            self._refuse_in_bookkeeping()
            wait = Block((), (var,), (), None, 0, "compute", _new_event())
            self.locked(self._enqueue, wait)
            self._sleep(wait)
        if var.failure is not None:
            self._raise(var.failure)

    def wait_for_all(self) -> None:
        """Waits until no work is pending.

        Raises:
            The oldest error that no wait has raised yet. All errors are cleared; a note names the
            others.
            MXNetError: it is called from a function that the engine runs.
        """
        if _local.running is not None:
            raise MXNetError(f"engine: wait_for_all inside {_local.running[1].name} would wait for itself")
        self._refuse_in_bookkeeping()
        self.drain(-1)
        with self.lock:
            failures, self.failures = [f for f in self.failures if not f.abandoned], {}
            first = failures[0].error if failures else None
            for failure in failures[1:]:
                if first is not None and failure.error is not first:
                    first.add_note(f"also failed: {failure.name}: {failure.error!r}")
                failure.error = failure.traceback = None
        if failures:
            self._raise(failures[0])

    def stop(self, timeout: float | None = None) -> list[str]:
        """Finishes pending work and stops the workers. A later push restarts them.

        Args:
            timeout: maximum number of seconds to wait; None: no limit.

        Returns:
            The names of the functions that have not finished.
        """
        if _local.running is not None:
            raise MXNetError(f"engine: stop inside {_local.running[1].name} would wait for itself")
        return self.drain(-1 if timeout is None else timeout)

    # ---- bookkeeping: the methods up to "running" are called with the lock, through `locked`

    def locked(self, action: Callable[[Any], Any], argument: Any) -> Any:
        with self.lock:
            if self._inside:
                self._deferred.append((action, argument))
                return _DEFERRED
            self._inside = True
            try:
                try:
                    return action(argument)
                finally:
                    while self._deferred:
                        action, argument = self._deferred.popleft()
                        action(argument)
            finally:
                self._inside = False

    def _enqueue(self, block: Block) -> None:
        block.seq = next(self._seq)
        self.pending[block] = None
        for var in block.const_vars:
            self._want_read(block, var)
        for var in block.mutate_vars:
            self._want_write(block, var)
        if not block.wait:
            self._ready(block)

    def _want_read(self, block: Block, var: Var) -> None:
        var.uses += 1
        if var.granted >= 0 and not var.queue:
            var.granted += 1
        else:
            self._queue_up(block, var, False)

    def _want_write(self, block: Block, var: Var) -> None:
        var.uses += 1
        var.writes += 1
        if var.granted == 0:
            var.granted = -1
        else:
            self._queue_up(block, var, True)

    def _queue_up(self, block: Block, var: Var, write: bool) -> None:
        for other in tuple(self.open_blocks.values()):
            if other is not block and (var in other.mutate_vars or var in other.const_vars):
                self._close(other)
        block.wait += 1
        if var.queue is None:
            var.queue = deque()
        var.queue.append((block, write))

    def _ready(self, block: Block) -> None:
        if block.ops:
            self._dispatch(block)
        else:
            self._finish(block)

    def _finish(self, block: Block) -> None:
        """Takes a finished block off its variables and starts blocks that waited for them."""
        try:
            del self.pending[block]
        except KeyError:    # it was running when the process forked, and this is the child
            return
        for var in block.const_vars:
            var.uses -= 1
            var.granted -= 1
            if not var.granted and var.queue:
                self._grant(var, var.queue)
        for var in block.mutate_vars:
            var.uses -= 1
            var.writes -= 1
            var.granted = 0
            if var.queue:
                self._grant(var, var.queue)
        if block.event is not None:
            block.event.release()
        if not self.pending and self._idle_events:
            for event in self._idle_events:
                event.release()
            self._idle_events.clear()

    def _grant(self, var: Var, queue: deque[tuple[Block, bool]]) -> None:
        """Hand a free variable to the write at the head of its queue, or to all reads there."""
        granted = []
        if queue[0][1]:
            var.granted = -1
            granted.append(queue.popleft()[0])
        else:
            while queue and not queue[0][1]:
                var.granted += 1
                granted.append(queue.popleft()[0])
        for block in granted:
            block.wait -= 1
            if not block.wait:
                self._ready(block)

    def _append(self, push: tuple[Operator, Hashable, int]) -> None:
        """Add a function to this thread's open block, or begin one.

        An open block stands in the queues of its variables like any other and only waits to be closed, so order and
        `Var.busy` are exact.  It is closed as soon as another block queues up behind it, whichever thread that comes
        from: so nobody waits for the end of somebody's scope, and, as only blocks with nothing behind them grow, no
        two can come to wait for each other.
        """
        op, ctx, priority = push
        block = self.open_blocks.get(_thread.get_ident())
        if block is not None and not self._fits(block, op, ctx, priority):
            self._close(block)
            block = None
        if block is None:
            block = Bulk(op, ctx, priority)
            self._enqueue(block)
            self.open_blocks[block.thread] = block
        else:
            block.functions.append(op)
            for var in op.const_vars:
                if var not in block.reads and var not in block.writes:
                    block.reads[var] = None
                    self._want_read(block, var)
            for var in op.mutate_vars:
                if var not in block.writes:
                    block.writes[var] = None
                    self._want_write(block, var)
        if len(block.ops) >= bulking.local.size:
            self._close(block)

    def _fits(self, block: Block, op: Operator, ctx: Hashable, priority: int) -> bool:
        if block.ctx != ctx or block.priority != priority or block.lane != op.lane:
            return False
        return not any(var in block.const_vars for var in op.mutate_vars)    # a read does not turn into a write

    def _close(self, block: Bulk) -> None:
        del self.open_blocks[block.thread]
        block.wait -= 1
        if not block.wait:
            self._ready(block)

    def close_own(self, _: Any) -> None:
        block = self.open_blocks.get(_thread.get_ident())
        if block is not None:
            self._close(block)

    def _watch_idle(self, event: Any) -> None:
        for block in tuple(self.open_blocks.values()):
            self._close(block)
        if self.pending:
            self._idle_events.append(event)
        else:
            event.release()

    def _refuse_deadlock(self, target: Block) -> None:
        """Raise if `target` cannot end before the functions that this thread runs, directly or through others."""
        mine, link = set(), _local.running
        while link is not None:
            mine.add(link[0])
            link = link[2]
        read: set[Var] = set()
        written: set[Var] = set()
        for block in self.pending:
            if block in mine or not (written.isdisjoint(block.const_vars) and written.isdisjoint(block.mutate_vars)
                                     and read.isdisjoint(block.mutate_vars)):
                if block is target and _local.running is not None:
                    raise MXNetError(f"engine: {_local.running[1].name} waits for work that itself waits for it")
                read.update(block.const_vars)
                written.update(block.mutate_vars)

    # ---- running

    def _prepare(self, op: Operator, ctx: Hashable, priority: int) -> Block:
        self._refuse_deleted(op)
        if self.open_blocks:
            self.locked(self.close_own, None)
        return Block((op,), op.const_vars, op.mutate_vars, ctx, priority, op.lane)

    def run_block(self, block: Block) -> bool:
        """Run the functions of a granted block.  Returns whether it has completed; asynchronous ones do later."""
        outer = _local.running
        try:
            is_bulk = len(block.ops) > 1
            for op in block.ops:
                _local.running = (block, op, outer)
                failure = self._inherited(op) if self.failures else None
                if failure is None:
                    run_ctx = RunContext(block.ctx, is_bulk, op.resources)
                    if op.is_async:
                        self._run_async(op, run_ctx, _Completion(self, block, op))
                        return False
                    try:
                        block.result = op.fn(run_ctx)
                    except BaseException as error:
                        failure = self.keep(op, error)
                self._conclude(block, op, failure)
            return True
        finally:
            _local.running = outer

    def _run_async(self, op: Operator, run_ctx: RunContext, on_complete: _Completion) -> None:
        try:
            op.fn(run_ctx, on_complete)
        except BaseException as error:
            on_complete.failed(error)

    def complete_async(self, block: Block, op: Operator, error: BaseException | None) -> None:
        self._conclude(block, op, None if error is None else self.keep(op, error))
        self.locked(self._finish, block)

    def _inherited(self, op: Operator) -> Failure | None:
        """The error that keeps `op` from running."""
        if not op.always:
            for var in op.const_vars + op.mutate_vars:
                if var.failure is not None and var.failure.error is not None:
                    return var.failure
        return None

    def keep(self, op: Operator, error: BaseException) -> Failure:
        trace = error.__traceback__
        if trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next    # without the engine's own frame, which holds the block and its variables
        failure = Failure(error, trace, op.name)
        with self.lock:
            self.failures[failure] = None
        return failure

    def _conclude(self, block: Block, op: Operator, failure: Failure | None) -> None:
        """Note the outcome in the variables that `op` mutates, while they are still held."""
        if failure is not None:
            block.failure = failure
            for var in op.mutate_vars:
                var.failure = failure
                failure.vars.append(var)
        for var in op.mutate_vars:
            var.version += 1

    def _raise(self, failure: Failure) -> None:
        """Raises a stored error unless another caller has raised it."""
        with self.lock:
            error, failure.error = failure.error, None
            trace, failure.traceback = failure.traceback, None
            self.failures.pop(failure, None)
        if error is not None:
            try:
                raise error.with_traceback(trace)
            finally:
                del error, trace    # the traceback holds this frame

    # ---- waiting

    def _sleep(self, block: Block) -> None:
        if _local.running is None:
            block.event.acquire()
            return
        with self._blocked():
            while not block.event.acquire(timeout=_LOOK_FOR_DEADLOCK):
                self.locked(self._refuse_deadlock, block)

    def drain(self, timeout: float) -> list[str]:
        """Waits at most `timeout` seconds (-1: no limit) until nothing is pending; returns the names still pending."""
        event = _new_event()
        self.locked(self._watch_idle, event)
        if event.acquire(timeout=timeout):
            return []
        with self.lock:
            return [op.name for block in self.pending for op in block.ops]

    def _refuse_deleted(self, op: Operator) -> None:
        if op.deleted:
            raise MXNetError(f"engine: operator {op.name} was deleted")
        for variables in (op.const_vars, op.mutate_vars):
            for var in variables:
                if var.deleted:
                    raise MXNetError(f"engine: {op.name}: variable {var} was deleted")

    def _read_here(self, var: Var) -> bool:
        """Returns whether the function that this thread runs reads `var`; raises where its block writes it."""
        link = _local.running
        while link is not None:
            block, op, link = link
            if var in op.const_vars:
                return True
            if var in block.mutate_vars:
                raise MXNetError(f"engine: {op.name} waits for {var}, which it mutates itself")
        return False

    def _refuse_conflict(self, pushed: Block) -> None:
        """Raise where waiting for `pushed` would be waiting for the function that this thread runs."""
        link = _local.running
        while link is not None:
            block, op, link = link
            for var in (*pushed.const_vars, *pushed.mutate_vars):
                if var in block.mutate_vars or (var in block.const_vars and var in pushed.mutate_vars):
                    raise MXNetError(f"engine: {op.name} waits for {pushed.name}, which waits for {op.name} to release "
                                     f"variable {var}")

    def runs_here(self) -> bool:
        """Returns whether this thread runs a function of an engine."""
        return _local.running is not None

    def _refuse_in_bookkeeping(self) -> None:
        with self.lock:
            if self._inside:
                raise MXNetError("engine: cannot wait in a destructor or signal handler that runs inside the engine")


def _nothing(run_ctx: RunContext) -> None:
    """Do nothing."""
