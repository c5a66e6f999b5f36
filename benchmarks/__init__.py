"""The project's measurements. Run them from the root of the repository; see the Makefile."""
