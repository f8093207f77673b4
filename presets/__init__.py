"""The presets that come with the workbench: one TOML file each, data only."""
