"""The pytest plugin of calsched (fixture ``calsched_app``)."""
