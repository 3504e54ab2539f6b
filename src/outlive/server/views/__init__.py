"""What several frontends answer alike: pending approvals, terminals, output that is sent as it comes."""
