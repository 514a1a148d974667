"""The process files beside reader, broker, servers and monitor: exporter, snapshotter, logger and CDC port."""
