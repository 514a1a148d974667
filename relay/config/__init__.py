"""The configuration: its keys, the INI dialect, and how a configuration is loaded."""
