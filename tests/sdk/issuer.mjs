// An authorization server (npm oidc-provider, a certified OpenID provider): node issuer.mjs SCOPE; prints its URL. JWT access tokens for the
// resource that was asked for (RFC 8707, RFC 9068), client credentials, code with PKCE, dynamic registration. GET /seen tells what it was asked.
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const scope = process.argv[2], seen = [];
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const machine = id => ({ client_id: id, client_secret: `${id}-secret`, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
  id_token_signed_response_alg: 'ES256', scope });

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: 'one' }] },
    cookies: { keys: ['of no worth'] },
    scopes: ['openid', 'offline_access', scope],
    clients: [machine('machine'), machine('hasty')],
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    pkce: { required: () => true },
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource, client) => ({ scope, audience: resource, accessTokenTTL: client.clientId === 'hasty' ? 3 : 600,
          accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } }),
      },
    },
  });
  const answer = provider.callback();
  server.on('request', (request, response) => {
    if (request.url === '/seen') return response.end(JSON.stringify(seen.splice(0)));
    const path = request.url.split('?')[0].replace(/(interaction|auth)\/.*/, '$1/…');
    response.on('finish', () => seen.push(`${request.method} ${path} ${response.statusCode}`));
    answer(request, response);
  });
  console.log(issuer);
});
