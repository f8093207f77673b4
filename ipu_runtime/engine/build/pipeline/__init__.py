"""Stages, and how a schedule is executed with them."""
