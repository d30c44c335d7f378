"""``count-nodes.py HEAD:PORT``: print how many nodes of a Ray cluster are alive."""

import sys

import ray

if __name__ == "__main__":
    ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
    print(sum(node["Alive"] for node in ray.nodes()))
