/** `client.tokens`: who may call the servers. Needs the role `admin`. */
import type { NewTokenInput, RotateTokenInput, Token, TokenWithSecret } from '@drover/protocol';
import type { Api } from './api.js';

export class Tokens {
  readonly #api: Api;

  /** Use `client.tokens`. */
  constructor(api: Api) {
    this.#api = api;
  }

  /** Creates a token. Its secret is only in this answer. Expires after 90 days unless `expires` says otherwise. */
  create(token: NewTokenInput): Promise<TokenWithSecret> {
    return this.#api.call('createToken', { body: token });
  }

  /** All tokens without their secrets: those of the database, and those in the configuration of the server that answers. */
  async list(): Promise<Token[]> {
    return (await this.#api.call('listTokens', {})).items;
  }

  /** Returns whether it was valid until now. */
  async revoke(id: string): Promise<boolean> {
    return (await this.#api.call('revokeToken', { params: { id } })).revoked;
  }

  /** Gives it a new secret. The present one stays valid for `overlap`, by default an hour. */
  rotate(id: string, options: RotateTokenInput = {}): Promise<TokenWithSecret> {
    return this.#api.call('rotateToken', { params: { id }, body: options });
  }
}
