"""Programs that estimators run."""
