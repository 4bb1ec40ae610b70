"""`python -m pyspark_rayshot.pipeline`; the function `pyspark_rayshot.pipeline` is in `pyspark_rayshot.running`."""

from pyspark_rayshot.command import main

if __name__ == "__main__":
    main()
