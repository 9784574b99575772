"""The worker: the one thread that touches the device.

Its loop: warm what the loader brought, let the scheduler choose the next batch, take ONE step,
report. Whoever has left the line by then is simply not in the next batch, so an abort waits for
one step at most. Nothing that goes wrong with one picture reaches another or ends the thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import torch

from engine.clock import GUESS_S, Clock
from engine.conditioning import Conditioning
from engine.desk import Desk
from engine.events import Failed, Started
from engine.failures import explain, failure, is_out_of_memory
from engine.inputs import Inputs
from engine.limits import EngineLimits
from engine.measures import Measures
from engine.pool import Pool
from engine.previews import Previews
from engine.reporting import Reporter
from engine.scheduler import Ticket
from engine.warmup import memory_in_use, release_memory, synchronise, warm
from models.captions import prepared
from models.contracts import LoadedVariant

_STEPS_TO_REGAIN = 200
_log = logging.getLogger(__name__)


class Worker:
    """Owns the sampler, the encoders and the autoencoder of every variant."""

    def __init__(
        self,
        desk: Desk,
        pool: Pool,
        conditioning: Conditioning,
        previews: Previews,
        reporter: Reporter,
        clock: Clock,
        measures: Measures,
        limits: EngineLimits,
        device: torch.device,
    ) -> None:
        self._desk = desk
        self._pool = pool
        self._conditioning = conditioning
        self._inputs = Inputs(limits)
        self._previews = previews
        self._reporter = reporter
        self._clock = clock
        self._measures = measures
        self._device = device
        self._max_batch = limits.max_batch
        self._warming: tuple[str, LoadedVariant, Iterator[None]] | None = None
        self._batch_limits: dict[str, int] = {}  # smaller after a variant ran out of memory
        self._good_steps: Counter[str] = Counter()  # full batches since then
        self._thread = threading.Thread(target=self._run, name="engine-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the thread runs; it does until the engine is closed."""
        return self._thread.is_alive()

    @property
    def max_batch(self) -> int:
        """The smallest limit in force."""
        return min([self._max_batch, *self._batch_limits.values()])

    def dropped(self, variant_id: str) -> None:
        """The pool dropped the variant's modules; its pictures begin again once it is back."""
        self._conditioning.forget(variant_id)
        self._previews.forget(variant_id)
        for ticket in self._desk.of_variant(variant_id):
            ticket.restart()

    # ---- the loop ----

    def _run(self) -> None:
        with torch.inference_mode():
            while not self._desk.closed:
                try:
                    self._turn()
                except Exception:  # a defect of ours; the batch it struck was failed already
                    _log.exception("The worker goes on after an unexpected error")

    def _turn(self) -> None:
        """One step of something, or a rest. Its locals end with it, so a rest holds no picture."""
        seen = self._desk.changes
        warmed = self._warm_on()
        self._refuse_failed()
        first = self._desk.first()
        if first is not None:
            self._pool.want(first.variant)
        batch = self._desk.next_batch(self._key_of, self._limit_of)
        del first
        if batch:
            try:
                self._advance(batch)
            except Exception as error:
                self._fail(batch, error)
                raise
        elif not warmed and not self._previews.learn_pending():
            del batch
            self._desk.wait(seen)

    def _key_of(self, ticket: Ticket) -> Hashable | None:
        loaded = self._pool.get(ticket.variant)
        if loaded is None:
            return None
        if ticket.key is None:
            ticket.key = (ticket.variant, loaded.sampler.batch_key(ticket.job.request.settings()))
        return ticket.key

    def _limit_of(self, ticket: Ticket) -> int:
        return self._batch_limits.get(ticket.variant, self._max_batch)

    def _warm_on(self) -> bool:
        """One piece of warming a variant that was loaded; false if there is none."""
        if self._warming is None:
            arrived = self._pool.arrived()
            if arrived is None:
                return False
            variant_id, loaded = arrived
            self._pool.warming(variant_id)
            pieces = warm(loaded, self._conditioning, self._previews, self._clock, self._device)
            self._warming = variant_id, loaded, pieces
        variant_id, loaded, pieces = self._warming
        try:
            next(pieces)
        except StopIteration:
            self._warming = None
            self._pool.admit(variant_id, loaded)
        except Exception as error:
            self._warming = None
            _log.warning("Warming %s failed", variant_id, exc_info=True)
            self._conditioning.forget(variant_id)
            self._pool.reject(variant_id, explain(error, loaded.variant.title))
        return True

    def _refuse_failed(self) -> None:
        """Requests that waited for a variant which then failed to load."""
        for variant in self._pool.variants():
            message = self._pool.failure(variant.id)
            for ticket in self._desk.of_variant(variant.id) if message else ():
                words = f"{variant.title} is not available: {message}"
                self._desk.finish(ticket, Failed(words, "unavailable"))

    # ---- one step ----

    def _advance(self, batch: Sequence[Ticket]) -> None:
        loaded = self._pool.activate(batch[0].variant)
        if loaded is None:  # set aside between choosing and now
            return
        begun = [t for t in batch if t.state is not None or self._begin(t, loaded)]
        whole = [ticket for ticket in begun if ticket.done >= ticket.steps]
        if whole:  # to be decoded only
            self._reporter.finish(whole, loaded)
            begun = [ticket for ticket in begun if ticket not in whole]
        if not begun:
            return
        start = time.perf_counter()
        try:
            loaded.sampler.advance([ticket.state for ticket in begun])
            synchronise(self._device)
        except Exception as error:
            self._recover(begun, error)
            return
        seconds = time.perf_counter() - start
        self._clock.step[loaded.variant.id].add(seconds)
        self._measures.step(loaded.variant.id, seconds, len(begun))
        self._regain(loaded.variant.id, len(begun))
        self._desk.count(steps=1, samples_stepped=len(begun), step_s=seconds)
        for ticket in begun:
            ticket.done += 1
            ticket.device_s += seconds / len(begun)
            ticket.step_s = self._clock.step[loaded.variant.id].or_guess(GUESS_S)
        staying = [ticket for ticket in begun if not ticket.gone]
        self._reporter.steps(staying, loaded)
        ended = [ticket for ticket in staying if ticket.done >= ticket.steps and not ticket.gone]
        if ended:
            self._reporter.finish(ended, loaded)
            self._measures.device_bytes = memory_in_use(self._device)

    def _begin(self, ticket: Ticket, loaded: LoadedVariant) -> bool:
        """Read the prompt, draw the noise, encode a picture that is given.

        False if that failed; only this ticket is concerned.
        """
        if ticket.gone:
            return False
        start = time.perf_counter()
        request = ticket.job.request
        try:
            words = prepared(request.prompt, request.caption or loaded.variant.caption)
            prompt = self._conditioning.context(loaded, words)
            empty = self._conditioning.context(loaded, "")
            state = self._inputs.begin(
                loaded,
                request,
                ticket.base,
                ticket.again.trajectory if ticket.again else None,
                prompt,
                empty,
            )
            steps = loaded.sampler.num_steps(state)
            notes = self._conditioning.describe(loaded, words).notes()
        except Exception as error:
            _log.warning("A picture of %s could not begin", ticket.variant, exc_info=True)
            self._fail([ticket], error)
            return False
        ticket.steps, ticket.state, ticket.done = steps, state, state.step
        self._desk.begin(ticket, Started(request.to_dict(), steps, loaded.weights, notes))
        self._desk.count(prepare_s=time.perf_counter() - start)
        return True

    # ---- when a step fails ----

    def _recover(self, batch: Sequence[Ticket], error: Exception) -> None:
        """Company may be to blame: begin the batch again, smaller or one by one."""
        variant_id = batch[0].variant
        _log.warning("A step of %d pictures of %s failed", len(batch), variant_id, exc_info=error)
        short = is_out_of_memory(error)
        if short:
            self._desk.count(out_of_memory=1)
            self._batch_limits[variant_id] = max(1, len(batch) // 2)
            self._good_steps[variant_id] = 0
            error.__traceback__ = None  # its frames hold the step's tensors
            release_memory(self._device)
        if len(batch) == 1:
            self._fail(batch, error)
            return
        for ticket in batch:
            ticket.restart()
            ticket.alone = ticket.alone or not short
        self._desk.count(retried=len(batch))

    def _regain(self, variant_id: str, size: int) -> None:
        """A limit lowered by one tight moment rises again with steps that went well."""
        limit = self._batch_limits.get(variant_id)
        if limit is None or size < limit:
            return
        self._good_steps[variant_id] += 1
        if self._good_steps[variant_id] >= _STEPS_TO_REGAIN:
            self._good_steps[variant_id] = 0
            self._batch_limits[variant_id] = limit + 1
            if limit + 1 >= self._max_batch:
                del self._batch_limits[variant_id]

    def _fail(self, batch: Sequence[Ticket], error: Exception) -> None:
        title = next(v.title for v in self._pool.variants() if v.id == batch[0].variant)
        for ticket in batch:
            self._desk.finish(ticket, failure(error, title))
