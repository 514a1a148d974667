"""Client queues: their durable state. The rings themselves are native (`relay/native/queue.hpp`)."""
