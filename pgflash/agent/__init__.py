"""pgflash agent: tells load balancers, Patroni's operators and Prometheus over HTTP how the local server and its cache are."""
