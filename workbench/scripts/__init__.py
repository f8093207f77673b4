"""What the workbench knows of scripts that are not experiments of its own."""
