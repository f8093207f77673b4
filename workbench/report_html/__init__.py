"""A run as one self-contained HTML page."""

from __future__ import annotations

from workbench.report_html.run_page import report_page

__all__ = ["report_page"]
