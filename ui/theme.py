"""The product's look for Gradio's own components. Everything else is assets/web/page.css.

System fonts only: a page that asks another host for a font would not work offline.
"""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils.colors import Color

EMBER = Color(
    name="ember",
    c50="#fff4ee",
    c100="#ffe5d6",
    c200="#ffc7a8",
    c300="#ffa374",
    c400="#ff7d42",
    c500="#f25c1f",
    c600="#d1440c",
    c700="#a8350a",
    c800="#7e2a0c",
    c900="#5a210d",
    c950="#331105",
)
STONE = Color(
    name="stone",
    c50="#f8f7f5",
    c100="#efeeea",
    c200="#e1dfd9",
    c300="#cac7bf",
    c400="#97948c",
    c500="#6d6a63",
    c600="#504e49",
    c700="#3a3835",
    c800="#262523",
    c900="#1a1918",
    c950="#111110",
)
SANS = ("Inter", "ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


def theme() -> gr.themes.Base:
    """Gradio's theme in this product's colours."""
    return gr.themes.Base(
        primary_hue=EMBER,
        secondary_hue=EMBER,
        neutral_hue=STONE,
        font=SANS,
        font_mono=MONO,
        radius_size=gr.themes.sizes.radius_md,
        text_size=gr.themes.sizes.text_md,
        spacing_size=gr.themes.sizes.spacing_md,
    ).set(
        body_background_fill="*neutral_100",
        body_background_fill_dark="*neutral_950",
        background_fill_primary="#ffffff",
        background_fill_primary_dark="*neutral_900",
        background_fill_secondary="*neutral_50",
        background_fill_secondary_dark="*neutral_900",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_shadow="none",
        block_shadow_dark="none",
        block_padding="0",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_title_text_weight="600",
        block_title_text_size="*text_sm",
        block_title_text_color="*neutral_700",
        block_title_text_color_dark="*neutral_200",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        body_text_color_subdued="*neutral_500",
        body_text_color_subdued_dark="*neutral_400",
        border_color_primary="*neutral_200",
        border_color_primary_dark="*neutral_700",
        input_background_fill="#ffffff",
        input_background_fill_dark="*neutral_950",
        input_border_width="1px",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_700",
        input_border_color_focus="*primary_500",
        input_border_color_focus_dark="*primary_400",
        input_shadow_focus="0 0 0 3px color-mix(in srgb, *primary_500 22%, transparent)",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_600",
        button_primary_background_fill_hover_dark="*primary_500",
        button_primary_text_color="#ffffff",
        button_secondary_background_fill="*neutral_100",
        button_secondary_background_fill_hover="*neutral_200",
        button_secondary_background_fill_dark="*neutral_800",
        button_secondary_background_fill_hover_dark="*neutral_700",
        slider_color="*primary_500",
        slider_color_dark="*primary_500",
        checkbox_background_color_selected="*primary_600",
        checkbox_background_color_selected_dark="*primary_600",
        checkbox_border_color_selected="*primary_600",
        checkbox_border_color_selected_dark="*primary_600",
        checkbox_label_background_fill="transparent",
        checkbox_label_background_fill_dark="transparent",
        checkbox_label_background_fill_hover="*neutral_100",
        checkbox_label_background_fill_hover_dark="*neutral_800",
        checkbox_label_border_width="1px",
        checkbox_label_border_color="*neutral_300",
        checkbox_label_border_color_dark="*neutral_700",
    )
