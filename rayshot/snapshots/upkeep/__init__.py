"""What is done to snapshots later: retention, deletion, garbage collection, copies, pins."""
