"""Queues, locks, semaphores and events: actors in whose states calls wait, and the objects that programs use."""
