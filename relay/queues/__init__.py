"""The durable state of client queues. The rings themselves are native (`native/queue/queue.hpp`)."""
