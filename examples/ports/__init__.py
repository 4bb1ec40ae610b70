"""Programs as people write them for Ray, in `plain/`, and the same on rayshot, in `moved/`: compare two files."""
