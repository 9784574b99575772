"""The Live page: Gradio's controls, and one HTML component with the canvas.

No control talks to the server. Each reports to the page's script (`nitro.controls`), which asks
for pictures over the canvas routes; the script sets controls through one event of the canvas
component (`nitro.push` -> submit -> `nitro.merge`). So a keystroke costs no round trip, and what
is shown is decided in one place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from engine.requests import MAX_PROMPT_CHARACTERS
from ui.api import Api
from ui.mcp_tools import KEPT_S
from ui.variants import cards, limits

WEB = Path(__file__).resolve().parent.parent / "assets" / "web"
SCRIPTS = (
    "stream.js", "canvas.js", "settings.js", "report.js", "base.js", "runs.js", "live.js",
    "bits.js", "film.js", "undo.js", "paint.js", "pad.js", "share.js", "history.js", "keys.js", "pane.js", "versus.js",
    "compare.js", "axes.js", "grid.js", "batch.js", "vote.js", "numbers.js", "pages.js", "panel.js",
)  # fmt: skip
TITLE = "Nitro Canvas"


def head(engine: Any) -> str:
    """The page's scripts and what they need to know, inline: no further request, any prefix."""
    variants = cards(engine)
    config = {
        "keys": list(CONTROLS),
        "variants": variants,
        "limits": limits(),
        "defaults": {key: value for key, value in _defaults(variants).items() if key != "seed"},
    }
    text = json.dumps(config).replace("</", "<\\/")
    scripts = "\n".join((WEB / name).read_text("utf-8") for name in SCRIPTS)
    return (
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<script>window.nitro = {{ config: {text} }};\n{scripts}</script>"
    )


# The settings in the order in which the page's script gets them.
CONTROLS = (
    "variant", "ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule", "temperature",
    "seed", "lock", "auto", "draft", "preview_every",
)  # fmt: skip


def _defaults(variants: list[dict[str, Any]]) -> dict[str, Any]:
    first = next((card for card in variants if card["state"] != "failed"), variants[0])
    return {
        "variant": first["id"],
        "ar_iterations": first["ar_iterations"]["default"],
        "flow_steps": first["flow_steps"]["default"],
        "cfg_scale": first["cfg_scale"]["default"],
        "cfg_schedule": "constant",
        "temperature": 1.0,
        "seed": 0,
        "lock": False,
        "auto": True,
        "draft": True,
        "preview_every": 1,
    }


def build(engine: Any, api: Api) -> gr.Blocks:
    """The page for an engine. Launch it with `ui.serve`."""
    variants = cards(engine)
    start = _defaults(variants)
    with gr.Blocks(
        title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(600, KEPT_S)
    ) as page:
        gr.HTML(html_template=_web("header.html"), js_on_load=None, elem_id="nc-header")
        with gr.Row(elem_id="nc-main", equal_height=False):
            with gr.Column(scale=6, min_width=300, elem_id="nc-left"):
                stage = gr.HTML(
                    html_template=_web("stage.html"),
                    js_on_load="window.nitro.mount(element, (name) => name === 'submit' "
                    "? trigger('submit') : trigger('select'));",
                    elem_id="nc-stage",
                )
            with gr.Column(scale=4, min_width=300, elem_id="nc-panel"):
                prompt, generate, stop = _prompt()
                controls, dice = _settings(variants, start)
        for name in ("compare", "grid", "batch", "vote", "numbers"):
            gr.HTML(html_template=_web(f"{name}.html"), js_on_load=None, elem_id=f"nc-{name}")
        _wire(page, stage, prompt, controls, (generate, stop, dice))
        api.register()
    return page


def _prompt() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    prompt = gr.Textbox(
        label="Prompt",
        placeholder="a fox on a blue background",
        lines=3,
        max_lines=6,
        max_length=MAX_PROMPT_CHARACTERS,
        autofocus=True,
        elem_id="nc-prompt",
    )
    gr.HTML(
        html_template='<p id="nc-hint-line" class="nc-hint">Enter draws now, Shift+Enter starts '
        "a new line, Escape stops.</p>",
        js_on_load=None,
    )
    gr.HTML(  # filled by the page's script, as they follow the variant
        html_template='<div class="nc-examples" role="group" aria-label="Examples"></div>',
        js_on_load=None,
    )
    with gr.Row(elem_id="nc-actions"):
        generate = gr.Button("Generate", variant="primary", elem_id="nc-generate", scale=3)
        stop = gr.Button("Stop", variant="secondary", elem_id="nc-stop", scale=1, min_width=80)
    return prompt, generate, stop


def _settings(
    variants: list[dict[str, Any]], start: dict[str, Any]
) -> tuple[dict[str, Any], gr.Button]:
    def slider(key: str, label: str, info: str, step: float = 1) -> gr.Slider:
        low = min(card[key]["low"] for card in variants)
        high = max(card[key]["high"] for card in variants)
        return gr.Slider(
            low,
            high,
            start[key],
            step=step,
            label=label,
            info=info,
            elem_id=f"nc-{key}",
            buttons=[],
        )

    general = limits()
    controls: dict[str, Any] = {}
    controls["variant"] = gr.Radio(
        [(card["title"], card["id"]) for card in variants],
        value=start["variant"],
        label="Model",
        elem_id="nc-variant",
    )
    gr.HTML(html_template='<div id="nc-variant-card"></div>', js_on_load=None)
    with gr.Column(elem_id="nc-steps"):
        controls["ar_iterations"] = slider(
            "ar_iterations", "AR iterations", "Rounds in which tokens are committed"
        )
        controls["flow_steps"] = slider(
            "flow_steps", "Flow steps", "Steps that turn noise into a token"
        )
        controls["cfg_scale"] = slider(
            "cfg_scale", "CFG scale", "How closely the prompt is followed; 1 is off", 0.1
        )
    with gr.Row(elem_id="nc-seed-row", equal_height=True):
        controls["seed"] = gr.Number(
            start["seed"],
            label="Seed",
            precision=0,
            minimum=0,
            maximum=general["seed"]["high"],
            elem_id="nc-seed",
            min_width=120,
            scale=3,
        )
        dice = gr.Button("Roll", elem_id="nc-dice", min_width=70, scale=1)
        controls["lock"] = gr.Checkbox(
            start["lock"], label="Lock", elem_id="nc-lock", min_width=70, scale=1
        )
    controls["auto"] = gr.Checkbox(start["auto"], label="Draw while typing", elem_id="nc-auto")
    with gr.Accordion("More settings", open=False, elem_id="nc-more"):
        controls["cfg_schedule"] = gr.Radio(
            [("Constant", "constant"), ("Linear", "linear")],
            value=start["cfg_schedule"],
            label="CFG schedule",
            info="Linear: guidance grows from step to step",
            elem_id="nc-cfg_schedule",
        )
        controls["temperature"] = gr.Slider(
            general["temperature"]["low"],
            general["temperature"]["high"],
            start["temperature"],
            step=0.05,
            label="Temperature",
            info="Scale of the initial noise; 1 is the model's own",
            elem_id="nc-temperature",
            buttons=[],
        )
        controls["draft"] = gr.Checkbox(
            start["draft"],
            label="Draft first",
            info="While you type, a quick draft where the picture itself takes longer",
            elem_id="nc-draft",
        )
        controls["preview_every"] = gr.Slider(
            0,
            16,
            start["preview_every"],
            step=1,
            label="Preview interval",
            info="A frame each n steps; 0 shows the finished picture only",
            elem_id="nc-preview_every",
            buttons=[],
        )
    return controls, dice


def _wire(
    page: gr.Blocks,
    stage: gr.HTML,
    prompt: gr.Textbox,
    controls: dict[str, Any],
    buttons: tuple[gr.Button, gr.Button, gr.Button],
) -> None:
    """Everything runs in the browser: no listener has a Python function."""
    ordered = [controls[key] for key in CONTROLS]
    gr.on(
        [control.change for control in ordered],
        None,
        ordered,
        None,
        js="(...values) => { window.nitro.controls(...values); }",
        trigger_mode="multiple",
        queue=False,
    )
    stage.submit(
        None,
        ordered,
        ordered,
        js="(...values) => window.nitro.merge(...values)",
        trigger_mode="multiple",
        queue=False,
    )
    stage.select(
        None,
        [prompt],
        [prompt],
        js="(text) => window.nitro.mergePrompt(text)",
        trigger_mode="multiple",
        queue=False,
    )
    generate, stop, dice = buttons
    for button, call in (
        (generate, "nitro.generate()"),
        (stop, "nitro.stop()"),
        (dice, "nitro.push({ seed: window.nitro.rollSeed() })"),
    ):
        button.click(
            None,
            None,
            None,
            js=f"() => {{ window.{call}; }}",
            trigger_mode="multiple",
            queue=False,
        )
    page.load(None, None, None, js="() => { window.nitro.loaded(); }", queue=False)


def _web(name: str) -> str:
    return (WEB / name).read_text("utf-8")
