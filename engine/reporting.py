"""Turning progress into events: previews after steps, the picture at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.clock import Clock
from engine.desk import Desk
from engine.events import Bits, Finished, Grid, Pixels, Step, Timings
from engine.failures import failure, is_out_of_memory
from engine.job import Job
from engine.limits import EngineLimits
from engine.pictures import Kept, Pictures
from engine.previews import PreviewKind, Previews, PreviewSituation, choose, due
from engine.results import Result, Results
from engine.scheduler import Ticket
from engine.warmup import synchronise
from models.contracts import LoadedVariant
from models.pixels import to_pixels

_log = logging.getLogger(__name__)


class Reporter:
    """Part of the worker: every method runs in its thread."""

    def __init__(
        self,
        desk: Desk,
        previews: Previews,
        results: Results,
        pictures: Pictures,
        clock: Clock,
        limits: EngineLimits,
        device: torch.device,
    ) -> None:
        self._desk = desk
        self._previews = previews
        self._results = results
        self._pictures = pictures
        self._clock = clock
        self._share = limits.preview_share
        self._device = device

    # ---- after a step ----

    def steps(self, tickets: Sequence[Ticket], loaded: LoadedVariant) -> None:
        """A `Step` event for every ticket, with previews for those that are due one."""
        kinds = {ticket: self._kind(ticket, loaded) for ticket in tickets}
        made: dict[Ticket, Pixels] = {}
        for kind in ("decoder", "linear"):
            wanted = [ticket for ticket in tickets if kinds[ticket] == kind]
            if wanted:
                made.update(self._make(kind, wanted, loaded))
        for ticket in tickets:
            preview = made.get(ticket)
            if preview is not None and ticket.first_frame_at is None:
                ticket.first_frame_at = time.perf_counter()
            step = Step(
                index=ticket.done,
                total=ticket.steps,
                committed=committed_grid(ticket, loaded),
                preview=preview,
                preview_kind=kinds[ticket] if preview is not None else None,
                timings=timings(ticket),
                noise=loaded.sampler.noise_level(ticket.state),
                bits=raster(ticket, loaded),
            )
            self._desk.publish(ticket, step)

    def _kind(self, ticket: Ticket, loaded: LoadedVariant) -> PreviewKind | None:
        shown = loaded.sampler.shown(ticket.state)
        if shown is False:
            return None
        decoder, linear = self._previews.costs(loaded.variant.id, loaded.variant.autoencoder)
        if loaded.variant.tokens and shown is not True:
            decoder = None  # what is missing of a row is no part of the picture to be veiled
        request = ticket.job.request
        situation = PreviewSituation(
            mode=request.preview,
            every=request.preview_every,
            step=ticket.done,
            steps=ticket.steps,
            device_s=ticket.device_s,
            preview_s=ticket.preview_s,
            decoder_cost_s=decoder,
            linear_cost_s=linear,
        )
        kind = choose(situation, self._share)
        if kind is None and ticket.preview_s == 0 and due(situation):
            self._previews.declined(loaded.variant.id)
        return kind

    def _make(
        self, kind: PreviewKind, wanted: Sequence[Ticket], loaded: LoadedVariant
    ) -> dict[Ticket, Pixels]:
        """The previews; none if they fail, for a picture must not fail by its preview."""
        begin = time.perf_counter()
        try:
            latents = _latents(wanted, loaded)
            cells = [loaded.sampler.shown(ticket.state) for ticket in wanted]
            parts = [cell for cell in cells if isinstance(cell, Tensor)]
            shown = torch.stack(parts) if len(parts) == len(cells) else None
            pictures = self._previews.make(kind, loaded, latents, shown)
        except Exception:
            _log.warning("Previews of %s failed", loaded.variant.id, exc_info=True)
            pictures = []
        seconds = time.perf_counter() - begin
        for ticket in wanted:
            ticket.preview_s += seconds / len(wanted)
        self._desk.count(previews=len(pictures), preview_s=seconds)
        return dict(zip(wanted, pictures, strict=False))

    # ---- at the end ----

    def finish(self, tickets: Sequence[Ticket], loaded: LoadedVariant) -> None:
        """Decode together those of one size; if that fails, one by one, so that only the broken one
        fails."""
        sizes = sorted({ticket.job.request.size for ticket in tickets})
        if len(sizes) > 1:
            for size in sizes:
                self.finish([t for t in tickets if t.job.request.size == size], loaded)
            return
        begin = time.perf_counter()
        try:
            latents = _latents(tickets, loaded)
            pixels = loaded.autoencoder.decode(latents, tickets[0].job.request.size or None)
            images = to_pixels(pixels, loaded.variant.rounding)
            synchronise(self._device)
        except Exception as error:
            self._desk.count(out_of_memory=is_out_of_memory(error))
            if len(tickets) > 1:
                for ticket in tickets:
                    self.finish([ticket], loaded)
                return
            _log.warning("Decoding of %s failed", loaded.variant.id, exc_info=True)
            self._desk.finish(tickets[0], failure(error, loaded.variant.title))
            return
        seconds = time.perf_counter() - begin
        self._clock.decode[loaded.variant.id].add(seconds / len(tickets))
        self._desk.count(decode_s=seconds)
        for index, ticket in enumerate(tickets):
            ticket.device_s += seconds / len(tickets)
            self._deliver(ticket, images[index], loaded)
        self._previews.remember(loaded, latents[:1].clone(), pixels[:1].clone())

    def _deliver(self, ticket: Ticket, image: Pixels, loaded: LoadedVariant) -> None:
        image = image.copy()  # the batch's memory would live as long as its longest-kept picture
        image.setflags(write=False)
        grid = committed_grid(ticket, loaded)
        notes = ticket.started.notes if ticket.started else ()
        past = loaded.sampler.trajectory(ticket.state)
        bits = ticket.again.bits if ticket.again else raster(ticket, loaded)
        result = Result(image, grid, bits, ticket.steps, loaded.weights, notes, past)
        self._results.put(ticket.job.request, result)
        self._desk.finish(ticket, lambda t: self._finished(t, result))

    def _finished(self, ticket: Ticket, result: Result) -> Finished:
        """The end of a ticket, for whichever job it belongs to by now."""
        return finish_job(ticket.job, result, timings(ticket), self._pictures)


def finish_job(job: Job, result: Result, times: Timings, pictures: Pictures) -> Finished:
    """A job's end; its picture can be started from before anybody hears of it."""
    request = job.request
    pictures.keep(job.owner, Kept(job.id, result.image, request.variant, result.trajectory))
    return Finished(
        image=result.image,
        committed=result.committed,
        seed=request.seed,
        settings=request.to_dict(),
        steps=result.steps,
        timings=times,
        picture=job.id,
        bits=result.bits,
    )


def timings(ticket: Ticket) -> Timings:
    """Times of the ticket until now."""
    now, submitted = time.perf_counter(), ticket.job.submitted
    begun = ticket.begun_at if ticket.begun_at is not None else now
    frame = ticket.first_frame_at
    return Timings(
        queued_ms=1000 * max(0.0, begun - submitted),
        first_frame_ms=None if frame is None else 1000 * max(0.0, frame - submitted),
        total_ms=1000 * (now - submitted),
        device_ms=1000 * ticket.device_s,
        preview_ms=1000 * ticket.preview_s,
    )


def committed_grid(ticket: Ticket, loaded: LoadedVariant) -> Grid | None:
    """A copy on the host: the sampler goes on writing to its own."""
    grid = loaded.sampler.committed(ticket.state)
    if grid is None:
        return None
    copy: Grid = grid.to("cpu", torch.int16, copy=True).numpy()
    copy.setflags(write=False)
    return copy


def raster(ticket: Ticket, loaded: LoadedVariant) -> Bits | None:
    """The sample's bits on the host, where its tokens are binary."""
    made = loaded.sampler.raster(ticket.state)
    if made is None:
        return None
    copy: Bits = made.to("cpu", copy=True).numpy()
    copy.setflags(write=False)
    return copy


def _latents(tickets: Sequence[Ticket], loaded: LoadedVariant) -> Tensor:
    """[N, C, h, w]"""
    return torch.stack([loaded.sampler.latent(ticket.state) for ticket in tickets])
