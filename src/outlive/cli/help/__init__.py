"""Help pages, manual pages, the examples in both, and what words of other programs mean."""
