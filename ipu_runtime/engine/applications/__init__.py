"""Programs compiled into files, which are started, called and served."""
