"""Makes the calls of users' code that awaits answers, beside the loop of the worker: limited in number, each with a
timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from holdfast.services.hosting.blocking_calls import further
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.kernel.operators.answered import Questions
from holdfast.services.kernel.operators.user_errors import text_of

TICK_S = 1.0


def ask(make: Callable[[], Questions], *, timeout_s: float, concurrency: int) -> tuple[Questions, str]:
    """Makes each call without an answer once. Returns the questions, and the reason of a failed call or an empty text.
    Blocks.

    Raises the errors of `make`.
    """
    questions = make()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return questions, asyncio.run(_ask(questions, timeout_s, concurrency))
    with ThreadPoolExecutor(1) as beside:  # in a notebook, whose thread has a loop
        return questions, beside.submit(asyncio.run, _ask(questions, timeout_s, concurrency)).result()


async def _ask(questions: Questions, timeout_s: float, concurrency: int) -> str:
    room, failed = asyncio.Semaphore(concurrency), list[str]()

    async def one(start: int) -> None:
        async with room:
            try:
                found = await asyncio.wait_for(questions.call(start), timeout_s)
            except TimeoutError:
                failed.append(f"no answer within {timeout_s:g} s")
            except HoldfastError:
                raise
            except Exception as error:
                failed.append(text_of(error))
            else:
                questions.answered(start, found)

    ticking = asyncio.create_task(_tick())
    try:
        await asyncio.gather(*(one(start) for start in questions.open))
    finally:
        ticking.cancel()
    return failed[0] if failed else ""


async def _tick() -> None:
    """Reports progress while the event loop runs, so that code which blocks the loop counts as hanging."""
    while True:
        further()
        await asyncio.sleep(TICK_S)
