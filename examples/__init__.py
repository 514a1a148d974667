"""Programs to read and run: the demo, and the throwaway database servers that it and the tests use."""
