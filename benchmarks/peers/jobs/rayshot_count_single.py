"""rayshot with a message for each record: what the same actors do if nobody batches for them."""

from benchmarks.peers.jobs.rayshot_count import main

RUN_MESSAGES = 16_384

if __name__ == "__main__":
    main(batch=1, run=RUN_MESSAGES)
