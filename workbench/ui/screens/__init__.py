"""Screens above the main one: help, questions, the log."""
