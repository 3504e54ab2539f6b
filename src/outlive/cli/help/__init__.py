"""Help pages, manual pages and the examples in both."""
