"""The process files beside reader, broker, servers and monitor: state writer, exporter, snapshotter, logger, CDC."""
