"""The app in a browser, for its own user alone."""
