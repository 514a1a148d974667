"""What other readers of statements make of the corpus, beside ours: make opinions."""
