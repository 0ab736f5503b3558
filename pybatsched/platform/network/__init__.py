"""The network of a platform: zones, links, topologies, and the routes between hosts."""
